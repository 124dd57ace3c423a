# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg, types

GROUP = "network"

OPTS = [
    cfg.StrOpt(
        "driver",
        help="Entry point (group zun.network.driver) of the network driver: docker, for bridges of this host's Docker, "
        "or fake, for networks in memory. Unset: the driver with the name in [compute] container_driver.",
    ),
    cfg.StrOpt(
        "subnet_pool",
        default="10.224.0.0/12",
        help="Block of addresses for the IPv4 subnets of networks whose creator names none. No other machine that "
        "hosts or containers must reach may have an address in this block. The API reads this option.",
    ),
    cfg.IntOpt(
        "subnet_prefix",
        default=24,
        min=16,
        max=29,
        help="Prefix length of a subnet from subnet_pool. With 24 a network has room for 253 containers.",
    ),
    cfg.StrOpt(
        "default_network",
        default="project",
        choices=[
            ("project", "A network of the container's project, which the host creates at first use"),
            ("docker0", "Docker's own bridge, where containers of all projects reach each other and the host"),
        ],
        help="Network of this host for containers whose request names no network.",
    ),
    cfg.StrOpt(
        "default_network_pool",
        default="10.240.0.0/14",
        help="Block of IPv4 addresses for the default networks of projects on this host. All hosts may use the same "
        "block. No other machine that the host or its containers must reach may have an address in this block.",
    ),
    cfg.IntOpt(
        "default_network_prefix",
        default=24,
        min=16,
        max=29,
        help="Prefix length of a default network. With 24 a project has room for 253 containers in its default network "
        "on this host.",
    ),
    cfg.BoolOpt(
        "firewall",
        default=True,
        help="Set firewall rules on this host that keep containers from the host and from denied_destinations. Needs "
        "iptables and CAP_NET_ADMIN; without them the service warns at start-up.",
    ),
    cfg.ListOpt(
        "denied_destinations",
        default=["169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "fe80::/10", "fd00:ec2::254/128",
                 "fd20:ce::254/128"],
        help="Blocks of addresses that containers cannot reach. The default has link-local addresses and the metadata "
        "services of clouds. Add the management network of the hosts.",
    ),
    cfg.ListOpt(
        "name_servers",
        item_type=types.IPAddress(),
        help="Name servers that containers may reach at port 53 even if their addresses are of the host or in "
        "denied_destinations. Unset: the name servers of this host, which Docker uses for containers. Empty: none.",
    ),
    # An address and no host name: Docker publishes on every address of the host if it cannot parse the value.
    cfg.IPOpt(
        "published_address",
        default="127.0.0.1",
        help="IP address of this host on which exposed ports of containers are published. Set an address that users "
        "reach; with the default, only the host itself reaches the ports.",
    ),
    cfg.Opt(
        "published_ports",
        type=types.Range(1, 65535),
        default="30000-32767",
        help="Range of ports of published_address on which exposed ports are published. No other program should listen "
        "on them, and net.ipv4.ip_local_port_range should not include them.",
    ),
]
