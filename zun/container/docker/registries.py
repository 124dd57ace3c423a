# SPDX-License-Identifier: Apache-2.0
"""Decide whether an image may come from its registry, before Docker connects to the registry.

The daemon is a client in the network of the host, and the user who names an image chooses the address to which the
daemon connects. So the operator must allow every registry whose addresses are not public.
"""

import ipaddress
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Self

from oslo_config import cfg

from zun.common import exceptions
from zun.common.image_reference import DOCKER_HUB, DOMAIN, OF_DOCKER_HUB, Reference, domain_of
from zun.common.subnets import Address, Block

EVERYTHING = "*"
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def resolve(host: str) -> list[str]:
    """Return the addresses that this machine's resolver has for ``host``. OSError if it has none."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


@dataclass(frozen=True, slots=True)
class Registries:
    """The registries from which images may come.

    - ``public``: whether every registry that has only public addresses is allowed.
    - ``allowed``: further registries in lower case, HOST or HOST:PORT, for example ``registry.example.org:5000``.
    - ``blocks``: further allowed addresses of registries, for example 10.1.0.0/16.
    """

    public: bool = True
    allowed: frozenset[str] = frozenset()
    blocks: tuple[Block, ...] = ()
    resolve: Callable[[str], Iterable[str]] = resolve

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Return the registries of the group ``docker`` of the configuration. Misconfigured as ``of``.

        The default registry is a further entry. Who makes names of it checks it.
        """
        docker = conf.docker
        listed = cls.of(docker.allowed_registries, public=docker.public_registries)
        default = _one_spelling(docker.default_registry or "")
        return replace(listed, allowed=listed.allowed | {default} - {""})

    @classmethod
    def of(cls, entries: Iterable[str], *, public: bool = True) -> Self:
        """Return the registries that ``entries`` allow. Each entry is HOST, HOST:PORT, a block of addresses or ``*``.

        Misconfigured for any other entry.
        """
        names, blocks = set(), []
        for entry in filter(None, entries):
            try:
                blocks.append(ipaddress.ip_network(entry))
            except ValueError:
                if entry != EVERYTHING and DOMAIN.fullmatch(entry) is None:
                    raise exceptions.Misconfigured(
                        f"[docker] allowed_registries: {entry} is neither HOST, HOST:PORT nor a block of addresses "
                        "such as 10.1.0.0/16"
                    ) from None
                names.add(_one_spelling(entry))
        return cls(public, frozenset(names), tuple(blocks))

    def check_image(self, image: str) -> None:
        """Raise InvalidValue unless ``image`` may come from its registry."""
        try:
            self.check(Reference.parse(image).domain)
        except ValueError as exc:
            raise exceptions.InvalidValue(f"{exc}.") from None

    def check_term(self, term: str) -> None:
        """Raise InvalidValue unless the registry of a search ``term`` is allowed. Docker splits at the first slash."""
        self.check(domain_of(term))

    def check(self, domain: str | None) -> None:
        """Raise InvalidValue unless the registry ``domain`` is allowed; None is Docker's own registry.

        The error is the same for a name without an address and for an address that is not public, so users learn
        nothing about the names and addresses in the network of the host.
        """
        name = _one_spelling(domain or DOCKER_HUB)
        if EVERYTHING in self.allowed or (self.public and name == DOCKER_HUB):
            return
        found = DOMAIN.fullmatch(name)
        if found is not None:
            host = found["host"]
            if self.allowed & {name, host} or self._addresses_allowed(host.strip("[]")):
                return
        raise exceptions.InvalidValue(
            f"image: no images may come from {(domain or DOCKER_HUB)[:64]}. Use another registry, or ask the operator "
            "to allow this one ([docker] allowed_registries)."
        )

    def _addresses_allowed(self, host: str) -> bool:
        try:
            addresses = [_unwrapped(ipaddress.ip_address(each.partition("%")[0])) for each in self.resolve(host)]
        except (OSError, ValueError):  # ValueError: the name is malformed for the resolver
            return False
        return bool(addresses) and all(
            any(address in block for block in self.blocks) or (self.public and is_public(address))
            for address in addresses
        )


PUBLIC_ONLY = Registries()


def _one_spelling(domain: str) -> str:
    """Return ``domain`` in lower case, with one name for Docker's own registry. The port stays: an entry without a port
    allows every port.
    """
    lower = domain.lower()
    return DOCKER_HUB if lower in OF_DOCKER_HUB else lower


def is_public(address: Address) -> bool:
    """Return whether ``address`` is a public unicast address: True for 8.8.8.8, False for 10.0.0.1 and ::1."""
    return address.is_global and not address.is_multicast


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 address, or the address itself: 10.0.0.1 for ::ffff:10.0.0.1."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
