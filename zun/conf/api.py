# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "api"

OPTS = [
    cfg.HostAddressOpt("host_ip", default="127.0.0.1", help="Address that zun-api listens on."),
    cfg.PortOpt("port", default=9517, help="Port that zun-api listens on."),
    bounded.IntOpt(
        "workers",
        min=1,
        max=bounded.MOST_THREADS,
        default=16,
        help="Threads that answer requests in zun-api's own server.",
    ),
    bounded.IntOpt("max_limit", min=1, default=1000, help="Most items in one page of a list."),
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "Tokens are checked with keystone (group keystone_authtoken)."),
            (
                "http_basic",
                "Names and passwords are checked with http_basic_user_file: for installations without keystone.",
            ),
            ("noauth", "Nothing is checked: whoever reaches the port can be an administrator."),
        ],
        help="How a request proves who it is.",
    ),
    cfg.StrOpt(
        "http_basic_user_file",
        default="/etc/zun/htpasswd",
        help="With auth_strategy http_basic, the file with a line NAME:HASH for each user, as 'htpasswd -B' writes it: "
        "bcrypt is the only hash. A change counts from the next request on.",
    ),
    cfg.StrOpt(
        "http_basic_project_file",
        help="With auth_strategy http_basic, the file with a line NAME:PROJECT:ROLE[,ROLE] for each user who is not "
        "simply a member of a project of the own name. The roles are reader, member, admin and what the policy file "
        "knows. A change counts from the next request on.",
    ),
    cfg.BoolOpt(
        "allow_noauth_on_any_address",
        default=False,
        help="With auth_strategy noauth, listen on an address other than loopback, and behind another server (uWSGI, "
        "gunicorn) answer clients that are not on loopback, although everybody who can reach it then controls every "
        "container and, through them, the hosts. Without this the service refuses to start, and to answer.",
    ),
    bounded.IntOpt(
        "rpc_timeout",
        min=1,
        default=75,
        help="Seconds the API waits for a compute host whose answer is the response (logs, exec, top, stats). Longer "
        "than [docker] default_timeout, so that a Docker that hangs is told as such and not as a host that is down.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)
