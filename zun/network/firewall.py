# SPDX-License-Identifier: Apache-2.0
"""Firewall rules that keep containers away from their host and from denied addresses.

Docker isolates the bridges of different networks, but each container reaches its host by the gateway, and every
machine that the host reaches. The rules are in two chains of the table ``mangle``, which neither Docker nor common
firewalls rewrite. The kernel evaluates ``mangle`` before ``filter``, so an accepting rule there cannot undo them.
"""

import contextlib
import ipaddress
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from oslo_config import cfg

from zun.common import exceptions
from zun.common.subnets import Address, Block

#: Prefix of the bridge interfaces of all networks; a ``+`` at the end is the wildcard of iptables.
BRIDGE_PREFIX = "zun-"
EVERY_BRIDGE = f"{BRIDGE_PREFIX}+"
COMMANDS = {4: "iptables", 6: "ip6tables"}
COMMAND_SECONDS = 30.0
_CHAINS = {"INPUT": "ZUN-INPUT", "FORWARD": "ZUN-FORWARD"}


@dataclass(frozen=True, slots=True)
class Firewall:
    """The blocks that containers may not reach (``denied``), and the name servers that they may always reach."""

    denied: tuple[Block, ...] = ()
    name_servers: tuple[Address, ...] = ()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, root: str = "/") -> Self:
        """Return the firewall of the options. Raises Misconfigured for a bad block. ``root`` is the host's ``/``."""
        denied = []
        for text in conf.network.denied_destinations:
            try:
                denied.append(ipaddress.ip_network(text))
            except ValueError as exc:
                raise exceptions.Misconfigured(
                    "[network] denied_destinations must be blocks of addresses such as 169.254.0.0/16, "
                    f"got {text} ({exc})"
                ) from None
        given = conf.network.name_servers
        asked = name_servers(Path(root)) if given is None else map(ipaddress.ip_address, given)
        return cls(tuple(denied), tuple(asked))

    def rules(self, version: int, bridges: Iterable[str]) -> Iterator[str]:
        """Yield the rules of one IP version, as ``iptables-restore`` reads them, for interfaces named ``bridges``."""
        yield from (f"-A {chain} -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN" for chain in _CHAINS.values())
        for bridge in bridges:
            asked = [server for server in self.name_servers if server.version == version]
            for chain in _CHAINS.values():
                for server in asked:
                    for protocol in ("udp", "tcp"):
                        yield f"-A {chain} -i {bridge} -d {server} -p {protocol} --dport 53 -j RETURN"
            if version == 6:  # containers find their gateway by neighbour discovery
                for kind in ("neighbour-solicitation", "neighbour-advertisement"):
                    yield f"-A ZUN-INPUT -i {bridge} -p ipv6-icmp --icmpv6-type {kind} -j RETURN"
            yield f"-A ZUN-INPUT -i {bridge} -j DROP"
            # Traffic inside one network, if the kernel passes bridged packets to iptables. Docker drops other traffic.
            yield f"-A ZUN-FORWARD -i {bridge} -o {bridge} -j RETURN"
            for block in self.denied:
                if block.version == version:
                    yield f"-A ZUN-FORWARD -i {bridge} -d {block} -j DROP"

    def apply(self, bridges: Iterable[str]) -> None:
        """Set the rules for every bridge named ``zun-*`` and for ``bridges``, whatever the chains hold before.

        Raises Unavailable, with a text for the operator.
        """
        names = [EVERY_BRIDGE, *bridges]
        for version, command in COMMANDS.items():
            if version == 6 and not os.path.exists("/proc/net/if_inet6"):
                continue
            # A chain's declaration (:NAME) empties the chain; all lines up to COMMIT are one change.
            chains = [f":{chain} - [0:0]" for chain in _CHAINS.values()]
            text = "\n".join(["*mangle", *chains, *self.rules(version, names), "COMMIT", ""])
            _run(f"{command}-restore", "--noflush", text=text)
            for hook, chain in _CHAINS.items():
                jump = (hook, "-j", chain)
                if not _succeeds(command, "-t", "mangle", "-C", *jump):
                    _run(command, "-t", "mangle", "-I", *jump)


def name_servers(root: Path) -> list[Address]:
    """Return the name servers that Docker uses for containers: every server of the host that is not on loopback.

    If ``/etc/resolv.conf`` names systemd-resolved alone, Docker reads the file with the servers of systemd-resolved.
    """
    found: dict[Address, None] = {}
    for name in ("etc/resolv.conf", "run/systemd/resolve/resolv.conf"):
        with contextlib.suppress(OSError):
            for line in (root / name).read_text(errors="replace").splitlines():
                words = line.split()
                if len(words) > 1 and words[0] == "nameserver":
                    with contextlib.suppress(ValueError):
                        found[ipaddress.ip_address(words[1])] = None
    return [each for each in found if not each.is_loopback and "%" not in str(each)]


def _run(command: str, *arguments: str, text: str = "") -> None:
    found = _execute(command, *arguments, text=text)
    if found.returncode:
        said = (found.stderr or found.stdout).strip()
        raise _failed(f"{command}: {said}")


def _succeeds(command: str, *arguments: str) -> bool:
    return _execute(command, *arguments).returncode == 0


def _execute(command: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    path = shutil.which(command, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin")))
    if path is None:
        raise _failed(f"{command} is not installed")
    try:
        return subprocess.run(
            [path, "-w", "5", *arguments], input=text, capture_output=True, text=True, timeout=COMMAND_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise _failed(str(exc)) from exc


def _failed(reason: str) -> exceptions.Unavailable:
    return exceptions.Unavailable(
        f"The firewall rules of containers could not be set ({reason}). Containers of every project reach the services "
        "of this host and [network] denied_destinations. Install iptables and give zun-compute CAP_NET_ADMIN, for "
        "example with AmbientCapabilities=CAP_NET_ADMIN in its unit; or filter traffic from the interfaces zun-+ "
        "yourself and set [network] firewall = false."
    )
