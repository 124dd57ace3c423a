# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "websocket_proxy"

OPTS = [
    cfg.HostAddressOpt(
        "wsproxy_host", default="127.0.0.1", help="Address that the websocket proxy of this host listens on."
    ),
    cfg.PortOpt("wsproxy_port", default=6784, help="Port that the websocket proxy of this host listens on."),
    cfg.URIOpt(
        "base_url",
        schemes=["ws", "wss"],
        default="ws://$wsproxy_host:$wsproxy_port/",
        help="How clients reach the websocket proxy of this host: ws:// or wss://, with a path if a reverse proxy in "
        "front tells the hosts apart by it. zun-compute gives it to clients together with a token.",
    ),
    bounded.IntOpt(
        "token_ttl",
        min=1,
        default=600,
        help="Seconds within which a client must connect with the token it was given. A session lasts longer.",
    ),
    cfg.ListOpt(
        "allowed_origins",
        default=[],
        help="Hosts of web pages that may connect besides the one in base_url, such as the dashboard's.",
    ),
    cfg.StrOpt("cert", help="Certificate file, PEM, to serve wss:// without a reverse proxy."),
    cfg.StrOpt("key", help="Key file of the certificate; unset if the certificate file has it."),
    cfg.BoolOpt("ssl_only", default=False, help="Refuse to start without a certificate."),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)
