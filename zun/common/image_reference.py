# SPDX-License-Identifier: Apache-2.0
"""Parse the names of images and registries by the rules of Docker (distribution/reference)."""

import ipaddress
import re
from dataclasses import dataclass, replace
from typing import Self

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_LABEL = r"[a-zA-Z0-9]+(?:-+[a-zA-Z0-9]+)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
#: The algorithms that Docker knows.
_DIGEST = "sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}"
#: A registry as names of images have it: a host name, an address of IPv4, or one of IPv6 in brackets; and a port.
DOMAIN = re.compile(
    rf"(?P<host>{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::(?P<port>[0-9]{{1,5}}))?"
)  # fmt: skip
_FORM = re.compile(
    rf"(?:(?P<domain>{DOMAIN.pattern})/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>{_TAG}))?"
    rf"(?:@(?P<digest>{_DIGEST}))?"
)
_TAG_FORM = re.compile(_TAG)
#: Docker's own registry, to which a name without a registry belongs, and its further names.
DOCKER_HUB = "docker.io"
OF_DOCKER_HUB = frozenset({DOCKER_HUB, "index.docker.io", "registry-1.docker.io"})
#: Of these names alone Docker takes ``nginx`` for ``library/nginx``.
_WITH_LIBRARY = (None, DOCKER_HUB, "index.docker.io")
#: Where a host keeps images that were made of containers, each with its uuid for a tag.
LOCAL = "zun-commit"
#: Where a host keeps images of Glance, each with its id for a tag.
OF_SERVICE = "zun-glance"
#: Nobody may ask for an image by a name of these.
INTERNAL = (LOCAL, OF_SERVICE)
_ID = re.compile("(sha256:)?[0-9a-f]{64}")  # of an image on a host; Docker looks for that first
_LONGEST = 255


@dataclass(frozen=True, slots=True)
class Reference:
    """The parts of an image's name. ``domain`` is the registry, or None. If there is a digest, the tag is ignored."""

    domain: str | None
    path: str
    tag: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the parts of a name. Raises ValueError, whose text is for the author of the name."""
        found = _FORM.fullmatch(text) if len(text) <= _LONGEST and not _ID.fullmatch(text) else None
        if found is None or not _has_address(found["host"]):
            raise ValueError(
                f"'{text[:64]}' is not the name of an image: give [REGISTRY/]NAME[:TAG][@DIGEST], with NAME in lower "
                "case"
            )
        domain, path = found["domain"], found["path"]
        if domain is not None and not _is_domain(domain):
            domain, path = None, f"{domain}/{path}"
        return cls(domain, path, found["tag"], found["digest"])

    @property
    def repo(self) -> str:
        return self.path if self.domain is None else f"{self.domain}/{self.path}"

    @property
    def version(self) -> str:
        """Return the digest if there is one, else the tag, else ``latest``."""
        return self.digest or self.tag or "latest"

    @property
    def origin(self) -> str:
        """Return ``repo`` in one spelling for all names that mean the same: ``docker.io/library/nginx``."""
        library = "library/" if self.domain in _WITH_LIBRARY and "/" not in self.path else ""
        return f"{canonical(self.domain)}/{library}{self.path}"

    @property
    def whole(self) -> str:
        """Return the name in full, which every engine understands alike: ``docker.io/library/nginx:latest``."""
        return join(self.origin, self.version)

    @property
    def listed(self) -> str:
        """Return ``repo`` as Docker lists the images that it has: ``nginx`` for ``docker.io/library/nginx``."""
        if self.domain not in _WITH_LIBRARY:
            return self.repo
        return self.path.removeprefix("library/") if self.path.count("/") == 1 else self.path

    def at(self, domain: str | None) -> Self:
        """Return the reference at the registry ``domain``, unless it names a registry itself.

        Docker takes a word for a part of the path (before release 24 in capital letters too), so a word gets the port
        of https: ``registry`` becomes ``registry:443``. Raises ValueError as ``registry_domain``.
        """
        if self.domain is not None:
            given = self.domain
        elif not domain:
            return self
        else:
            given = DOCKER_HUB if domain.lower() in OF_DOCKER_HUB else registry_domain(domain)
        return replace(self, domain=given if {".", ":"} & set(given) or given == "localhost" else f"{given}:443")

    def __str__(self) -> str:
        return join(self.repo, self.version)


def join(repo: str, version: str) -> str:
    """Return the whole name of a tag or digest ``version`` in ``repo``."""
    return f"{repo}@{version}" if ":" in version else f"{repo}:{version}"


def split(term: str) -> tuple[str, str | None]:
    """Return a part of a name without its tag or digest, and the digest, else the tag, else None.

    The colon of a port or of an address in brackets begins no tag: ``myhost:5000/app`` has none.
    """
    name, _, digest = term.partition("@")
    untagged, colon, tag = name.rpartition(":")
    if colon and _TAG_FORM.fullmatch(tag):
        return untagged, digest or tag
    return name, digest or None


def domain_of(name: str) -> str | None:
    """Return the registry in a name or in the beginning of a name, or None."""
    domain, slash, _ = name.partition("/")
    return domain if slash and _is_domain(domain) else None


def canonical(domain: str | None) -> str:
    """Return one spelling of a registry for all that mean the same, to compare registries by. None is Docker's own.

    ``index.docker.io`` is ``docker.io``, as in Docker's own look for an account. Hosts have no upper and lower case.
    """
    lower = (domain or DOCKER_HUB).lower().removesuffix(":443")
    return DOCKER_HUB if lower in OF_DOCKER_HUB else lower


def registry_domain(text: str) -> str:
    """Return ``text`` if it is a registry as names of images have it. Raises ValueError, whose text says how to write
    it.
    """
    if _fits(text):
        return text
    host = text[:_LONGEST].strip().rpartition("://")[2].partition("/")[0].rpartition("@")[2]
    write = host if len(host) < 64 and _fits(host) else "HOST or HOST:PORT, such as registry.example:5000"
    got = "" if "@" in text else f", got '{text[:64]}'"  # there may be a password
    raise ValueError(f"must be a registry as names of images have it{got}. Write {write}")


def _fits(domain: str) -> bool:
    found = DOMAIN.fullmatch(domain) if len(domain) <= _LONGEST else None
    return found is not None and 0 < int(found["port"] or 1) < 65536 and _has_address(found["host"])


def _has_address(host: str | None) -> bool:
    """Return whether a host in brackets is an address of IPv6, as ``[::1]``. Other hosts pass."""
    if host is None or not host.startswith("["):
        return True
    try:
        ipaddress.IPv6Address(host[1:-1])
    except ValueError:
        return False
    return True


def _is_domain(word: str) -> bool:
    """Return whether the first part of a name is a registry: else it belongs to the path."""
    return "." in word or ":" in word or word == "localhost" or word != word.lower()
