# SPDX-License-Identifier: Apache-2.0
"""The files of the page, read once. No request reads the disk, so no path of a client can leave the folder."""

import hashlib
import importlib.resources
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable

PAGE = "index.html"

#: Content types by the end of the name. A file with another end is not served.
CONTENT_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    content_type: str

    @property
    def etag(self) -> str:
        """Return the entity tag, which is another one for each content. Example: ``"5f3c..."`` with the quotes."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


def packaged() -> dict[str, File]:
    """Return the files of the page by their paths below ``/ui/``: ``vendor/lit-html.js``."""
    return dict(read(importlib.resources.files(__package__).joinpath("static")))


def read(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, File]]:
    """Yield paths and files of ``folder`` and of the folders in it. Paths begin with ``prefix``."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from read(entry, f"{prefix}{entry.name}/")
        elif kind := CONTENT_TYPES.get(entry.name[entry.name.rfind(".") :]):
            yield f"{prefix}{entry.name}", File(entry.read_bytes(), kind)
