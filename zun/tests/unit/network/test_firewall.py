# SPDX-License-Identifier: Apache-2.0
from ipaddress import ip_address, ip_network

import pytest
from oslo_config import cfg

from zun import conf as zun_conf
from zun.common import exceptions
from zun.network.bridges import interface_name
from zun.network.docker import DockerNetworks
from zun.network.firewall import EVERY_BRIDGE, Firewall

ESTABLISHED = [
    "-A ZUN-INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
    "-A ZUN-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
]


def options(**given):
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf([], project="zun", default_config_files=[], default_config_dirs=[])
    for name, value in given.items():
        conf.set_override(name, value, group="network")
    return conf


@pytest.mark.parametrize(
    ("version", "servers", "expected"),
    [
        pytest.param(
            4,
            (),
            [
                "-A ZUN-INPUT -i zun-+ -j DROP",
                "-A ZUN-FORWARD -i zun-+ -o zun-+ -j RETURN",
                "-A ZUN-FORWARD -i zun-+ -d 169.254.0.0/16 -j DROP",
            ],
            id="ipv4",
        ),
        pytest.param(
            6,
            ("192.0.2.53",),
            [
                "-A ZUN-INPUT -i zun-+ -p ipv6-icmp --icmpv6-type neighbour-solicitation -j RETURN",
                "-A ZUN-INPUT -i zun-+ -p ipv6-icmp --icmpv6-type neighbour-advertisement -j RETURN",
                "-A ZUN-INPUT -i zun-+ -j DROP",
                "-A ZUN-FORWARD -i zun-+ -o zun-+ -j RETURN",
                "-A ZUN-FORWARD -i zun-+ -d fe80::/10 -j DROP",
            ],
            id="ipv6-with-neighbour-discovery",
        ),
        pytest.param(
            4,
            ("192.0.2.53",),
            [
                "-A ZUN-INPUT -i zun-+ -d 192.0.2.53 -p udp --dport 53 -j RETURN",
                "-A ZUN-INPUT -i zun-+ -d 192.0.2.53 -p tcp --dport 53 -j RETURN",
                "-A ZUN-FORWARD -i zun-+ -d 192.0.2.53 -p udp --dport 53 -j RETURN",
                "-A ZUN-FORWARD -i zun-+ -d 192.0.2.53 -p tcp --dport 53 -j RETURN",
                "-A ZUN-INPUT -i zun-+ -j DROP",
                "-A ZUN-FORWARD -i zun-+ -o zun-+ -j RETURN",
                "-A ZUN-FORWARD -i zun-+ -d 169.254.0.0/16 -j DROP",
            ],
            id="name-server-before-the-rest",
        ),
    ],
)
def test_rules(version, servers, expected):
    denied = (ip_network("169.254.0.0/16"), ip_network("fe80::/10"))
    made = Firewall(denied, tuple(map(ip_address, servers)))
    assert list(made.rules(version, [EVERY_BRIDGE])) == [*ESTABLISHED, *expected]


@pytest.mark.parametrize(
    ("given", "files", "expected"),
    [
        pytest.param(None, {}, [], id="no-files"),
        pytest.param(
            None,
            {"etc/resolv.conf": "# nameserver 192.0.2.1\nsearch example\nnameserver 169.254.169.254\nnameserver ::1\n"},
            ["169.254.169.254"],
            id="not-loopback",
        ),
        pytest.param(
            None,
            {
                "etc/resolv.conf": "nameserver 127.0.0.53\n",
                "run/systemd/resolve/resolv.conf": "nameserver 168.63.129.16\nnameserver fe80::1%eth0\nnameserver x\n",
            },
            ["168.63.129.16"],
            id="behind-systemd-resolved",
        ),
        pytest.param([], {"etc/resolv.conf": "nameserver 192.0.2.1\n"}, [], id="none-by-option"),
        pytest.param(["192.0.2.2"], {"etc/resolv.conf": "nameserver 192.0.2.1\n"}, ["192.0.2.2"], id="by-option"),
    ],
)
def test_name_servers(tmp_path, given, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    made = Firewall.from_conf(options(name_servers=given), str(tmp_path))
    assert [str(each) for each in made.name_servers] == expected


def test_link_local_and_metadata_are_denied_by_default():
    denied = Firewall.from_conf(options()).denied
    for address in ("169.254.169.254", "169.254.0.1", "fe80::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"):
        assert any(ip_address(address) in each for each in denied), address


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"denied_destinations": ["10.0.0.1/8"]}, r"denied_destinations must be blocks .* got 10\.0\.0\.1/8"),
        ({"default_network_pool": "10.0.0.0"}, "default_network_prefix = 24 is shorter"),
        ({"default_network_pool": "everything"}, "default_network_pool = everything"),
    ],
)
def test_bad_addresses_name_their_option(given, text):
    with pytest.raises(exceptions.Misconfigured, match=text):
        DockerNetworks.from_conf(options(**given))


def test_docker0_is_warned_of(caplog):
    DockerNetworks.from_conf(options())
    assert not caplog.records
    assert DockerNetworks.from_conf(options(default_network="docker0")).default("demo") is None
    assert "default_network = docker0" in caplog.text and "rebuild" in caplog.text


def test_interface_name_fits_and_is_held():
    names = {interface_name(f"zun-{number}") for number in range(100)}
    assert len(names) == 100 and {len(each) for each in names} == {15}
    assert all(each.startswith(EVERY_BRIDGE.removesuffix("+")) for each in names)
