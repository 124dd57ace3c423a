# SPDX-License-Identifier: Apache-2.0
"""Subnets of networks and their addresses: decisions only.

A subnet is stored as ``{"uuid", "cidr", "gateway"}``, all text in the standard library's spelling. A network has at
most one subnet of IPv4 and one of IPv6. The gateway is the host's end of the network's bridge, on every host.
"""

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zun.common import exceptions

Subnet = Mapping[str, Any]
Block = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LARGEST = {4: 16, 6: 48}  # prefix lengths; more is a mistake, and its addresses could never be listed
SMALLEST = {4: 29, 6: 125}  # room for the gateway and a few containers


@dataclass(frozen=True, slots=True)
class Pool:
    """A source of IPv4 subnets for networks that name none: the blocks of ``prefix`` bits in ``cidr``.

    The names of its options begin with ``option``: ``[network] OPTION_pool`` and ``OPTION_prefix``.
    """

    cidr: str
    prefix: int
    option: str = "subnet"

    def __post_init__(self) -> None:
        """Raise Misconfigured, naming the operator's option, if the pool has no blocks."""
        try:
            whole = ipaddress.IPv4Network(self.cidr)
        except ValueError as exc:
            raise exceptions.Misconfigured(
                f"[network] {self.option}_pool = {self.cidr}: it is not an IPv4 block such as 10.224.0.0/12 ({exc})"
            ) from None
        if not whole.prefixlen <= self.prefix:
            raise exceptions.Misconfigured(
                f"[network] {self.option}_prefix = {self.prefix} is shorter than the prefix of {self.option}_pool = "
                f"{self.cidr}"
            )


def block(text: str) -> Block:
    """Return the subnet that ``text`` names. Raises ValueError with the reason."""
    try:
        found = ipaddress.ip_network(text)
    except ValueError as exc:
        raise ValueError(f"'{text[:64]}' is not a subnet such as 10.1.2.0/24 ({exc})") from None
    largest, smallest = LARGEST[found.version], SMALLEST[found.version]
    if not largest <= found.prefixlen <= smallest:
        raise ValueError(f"{found}: its prefix must be from /{largest} to /{smallest}")
    if found.is_loopback or found.is_multicast or found.is_link_local or found.is_reserved or found.is_unspecified:
        raise ValueError(f"{found} has no addresses that containers could have")
    return found


def address(text: str, version: int) -> str:
    """Return ``text`` in the standard spelling. Raises ValueError unless it is an address of this IP version."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        found = None
    if found is None or found.version != version or "%" in text:
        raise ValueError(f"'{text[:64]}' is not an IPv{version} address")
    return str(found)


def any_address(text: str) -> str:
    """Return ``text`` in the standard spelling. Raises ValueError unless it is an address."""
    return address(text, 6 if ":" in text else 4)


def version(subnet: Subnet) -> int:
    return ipaddress.ip_network(subnet["cidr"]).version


def default_gateway(found: Block) -> str:
    """Return the first address after the subnet's own."""
    return str(found.network_address + 1)


def first_address(cidr: str) -> str:
    """Return the ``default_gateway`` of a block that is given as text."""
    return default_gateway(ipaddress.ip_network(cidr))


def is_host_address(found: Block, candidate: Address) -> bool:
    """Return whether an interface may have the address: inside the subnet, but neither its first nor its last address.
    """
    return candidate in found and candidate not in (found.network_address, found.broadcast_address)


def overlapping(wanted: Block, others: Iterable[str]) -> str | None:
    """Return the first of ``others`` that shares addresses with ``wanted``, or None."""
    return next((each for each in others if _overlap(wanted, ipaddress.ip_network(each))), None)


def _overlap(one: Block, two: Block) -> bool:
    return one.version == two.version and one.overlaps(two)


def free_block(pool: Pool, used: Collection[str]) -> str:
    """Return the lowest block of the pool that overlaps with none of ``used``. Raises Conflict if there is none."""
    whole = ipaddress.ip_network(pool.cidr)
    taken = [other for each in used if _overlap(whole, other := ipaddress.ip_network(each))]
    for candidate in whole.subnets(new_prefix=pool.prefix):
        if not any(_overlap(candidate, other) for other in taken):
            return str(candidate)
    raise exceptions.Conflict(
        f"Every subnet of the pool {pool.cidr} is in use. Delete networks that nobody needs, name a subnet, or enlarge "
        "[network] subnet_pool."
    )


def free_address(subnet: Subnet, used: Collection[str]) -> str | None:
    """Return the lowest address that a container may have and that is not in ``used``, or None."""
    found, gateway = ipaddress.ip_network(subnet["cidr"]), ipaddress.ip_address(subnet["gateway"])
    taken = {ipaddress.ip_address(each) for each in used} | {gateway}
    # Looking at one candidate more than are taken is enough, however large the subnet is.
    first = int(found.network_address) + 1
    for number in range(first, min(first + len(taken) + 1, int(found.broadcast_address))):
        candidate = ipaddress.ip_address(number) if found.version == 4 else ipaddress.IPv6Address(number)
        if candidate not in taken:
            return str(candidate)
    return None


def check_address(subnet: Subnet, wanted: str) -> None:
    """Raise InvalidValue unless a container may have the address ``wanted``, if it is free."""
    found = ipaddress.ip_network(subnet["cidr"])
    if not is_host_address(found, ipaddress.ip_address(wanted)):
        raise exceptions.InvalidValue(f"Address {wanted} is not one that a container can have in subnet {found}.")
    if wanted == subnet["gateway"]:
        raise exceptions.InvalidValue(f"Address {wanted} is the gateway of subnet {found}. Choose another one.")
