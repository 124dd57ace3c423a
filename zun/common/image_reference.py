# SPDX-License-Identifier: Apache-2.0
"""Parse the name of an image by the rules of Docker (distribution/reference)."""

import re
from dataclasses import dataclass, replace
from typing import Self

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
#: A host as a registry's name has one: a name, an address of IPv4, or one of IPv6 in brackets.
_LABEL = "[a-zA-Z0-9]+(?:-+[a-zA-Z0-9]+)*"
HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])"
_FORM = re.compile(
    rf"(?:(?P<domain>{HOST}(?::[0-9]{{1,5}})?)/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z0-9_+.-]+:[0-9a-fA-F]{32,}))?"
)
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
        if found is None:
            raise ValueError(f"'{text[:64]}' is not the name of an image: give [REGISTRY/]NAME[:TAG] in lower case")
        domain, path = found["domain"], found["path"]
        if domain is not None and not ("." in domain or ":" in domain or domain == "localhost"):
            if re.fullmatch(_COMPONENT, domain) is None:
                raise ValueError(f"'{text[:64]}' is not the name of an image: '{domain}' is not in lower case")
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
        """Return ``repo`` in one spelling for all names that mean the same to Docker."""
        if self.domain not in (None, "docker.io", "index.docker.io"):
            return self.repo
        return f"docker.io/{self.path}" if "/" in self.path else f"docker.io/library/{self.path}"

    def at(self, domain: str | None) -> Self:
        """Return the reference at the registry ``domain``, unless it names a registry itself."""
        return self if self.domain is not None or not domain else replace(self, domain=domain)

    def __str__(self) -> str:
        return join(self.repo, self.version)


def join(repo: str, version: str) -> str:
    """Return the whole name of a tag or digest ``version`` in ``repo``."""
    return f"{repo}@{version}" if ":" in version else f"{repo}:{version}"
