# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "websocket_proxy"

OPTS = [
    cfg.HostAddressOpt(
        "wsproxy_host", default="127.0.0.1", help="Address on which the websocket proxy of this host listens."
    ),
    cfg.PortOpt("wsproxy_port", default=6784, help="Port on which the websocket proxy of this host listens."),
    cfg.URIOpt(
        "base_url",
        schemes=["ws", "wss"],
        default="ws://$wsproxy_host:$wsproxy_port/",
        help="URL at which clients reach the websocket proxy of this host: ws:// or wss://, with a path if a reverse "
        "proxy in front selects the host by path. zun-compute gives the URL to clients together with a token.",
    ),
    bounded.IntOpt(
        "token_ttl",
        min=1,
        default=600,
        help="Seconds within which a client must connect with its token. A running session may last longer.",
    ),
    bounded.IntOpt(
        "sessions_per_user",
        min=0,
        default=20,
        help="Largest number of sessions of one user at this proxy. A further session is refused with status 429. 0: "
        "no limit.",
    ),
    bounded.IntOpt(
        "max_sessions",
        min=0,
        default=200,
        help="Largest number of sessions at this proxy; each takes two threads. A further session is refused with "
        "status 503. 0: no limit.",
    ),
    bounded.IntOpt(
        "idle_timeout",
        min=0,
        default=3600,
        help="Seconds without input or output after which a session ends. 0: never.",
    ),
    cfg.ListOpt(
        "allowed_origins",
        default=[],
        help="Host names of web pages that may connect, besides the host that the client connects to. Add the host of "
        "the dashboard.",
    ),
    cfg.StrOpt(
        "cert",
        help="Certificate file (PEM) with which the proxy itself serves wss://. A changed file counts from the next "
        "connection on.",
    ),
    cfg.StrOpt("key", help="Key file (PEM) of the certificate. Unset: the certificate file also has the key."),
    cfg.BoolOpt("ssl_only", default=False, help="Refuse to start without a certificate."),
]
