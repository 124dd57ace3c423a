# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

GROUP = "ui"

OPTS = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Serve the page in which people see machines and containers, at /ui/ of the API. Everybody who reaches "
        "the API can load the page; what it shows is what the API shows to the person who signs in.",
    ),
    cfg.StrOpt(
        "default_domain",
        default="Default",
        help="With auth_strategy keystone, name of the domain of users and projects that the page proposes.",
    ),
    cfg.ListOpt(
        "console_origins",
        default=[],
        help="Origins of the websocket proxies of the hosts, for example wss://node-1.example:6784: the page lets "
        "terminals connect nowhere else. An asterisk in place of the first label stands for every name. Empty: the "
        "origin of [websocket_proxy] base_url in this program's own configuration, which is right where all hosts "
        "share that URL.",
    ),
]
