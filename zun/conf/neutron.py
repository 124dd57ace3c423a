# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded, keystoneauth

GROUP = "neutron"

SECONDS = 15  # for one answer

LIBRARY: list[cfg.Opt] = keystoneauth.options("network", SECONDS, retries=2)

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "agent_host",
        help="Name of this host at Neutron: the option host of its L2 agent, letter by letter. Unset: [DEFAULT] host.",
    ),
    bounded.IntOpt(
        "active_timeout",
        default=30,
        min=1,
        help="Seconds in which a port of a starting container must become ACTIVE at Neutron. A later container ends in "
        "Error. Keep it below [docker] default_timeout.",
    ),
    cfg.StrOpt(
        "ovsdb_connection",
        default="tcp:127.0.0.1:6640",
        help="Where os-vif reaches the Open vSwitch database of this host: tcp:ADDRESS:PORT or unix:/PATH.",
    ),
    cfg.StrOpt(
        "plugin_socket",
        default="/run/docker/plugins/zun.sock",
        help="Socket on which this host's Docker asks zun-compute to wire a container. Docker looks for sockets in "
        "/run/docker/plugins; the file's name without .sock is the name of the driver of its networks. Agents that "
        "share a Docker need different names.",
    ),
]  # fmt: skip
