# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg, types

GROUP = "network"

OPTS = [
    cfg.StrOpt(
        "driver",
        help="Entry point (group zun.network.driver) of what makes networks on this host: docker, for bridges of its "
        "Docker, or fake, for networks in memory. Unset: the one that is called like [compute] container_driver.",
    ),
    cfg.StrOpt(
        "subnet_pool",
        default="10.224.0.0/12",
        help="Addresses that networks get their IPv4 subnet from unless their creator names one. Nothing that hosts or "
        "containers must reach may have addresses of it. The API reads it.",
    ),
    cfg.IntOpt(
        "subnet_prefix",
        default=24,
        min=16,
        max=29,
        help="Length of the prefix of such a subnet: with 24 a network has room for 253 containers.",
    ),
    # No host name: Docker publishes at every address of the host when it cannot read this one.
    cfg.IPOpt(
        "published_address",
        default="127.0.0.1",
        help="IP address of this host at which the exposed ports of its containers are published, so one that their "
        "users reach. As it is, only this host does.",
    ),
    cfg.Opt(
        "published_ports",
        type=types.Range(1, 65535),
        default="30000-32767",
        help="Ports of published_address that exposed ports are published at. Nothing else should listen there, and "
        "the kernel should not choose them for connections (net.ipv4.ip_local_port_range).",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)
