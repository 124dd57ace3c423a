# SPDX-License-Identifier: Apache-2.0
"""Archives of images, in the forms of ``docker save`` and of OCI.

An archive brings its own names, and a runtime that loads it gives them to the image, taking them from whatever had
them: an archive could replace every project's ``busybox:latest``. ``Renamed`` is the archive with one name and no
other.
"""

import io
import json
import lzma
import posixpath
import tarfile
import zlib
from collections.abc import Container, Iterator
from typing import Any, BinaryIO

from zun.common import exceptions
from zun.common.units import MIB

_DOCKER, _OCI = "manifest.json", "index.json"
#: Files that name the image. Docker reads the first that exists, in an order that depends on its store.
_NAMING = (_DOCKER, _OCI, "oci-layout", "repositories")
_MOST_MEMBERS = 10_000
_MOST_JSON = 4 * MIB
_PIECE = MIB
#: What tarfile and its decompressors raise over damaged data, beside OSError and ValueError.
_DAMAGED = (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError)


class Renamed:
    """The archive in ``file`` with the one name ``name`` for its image. Raises Invalid if it is not of one image.

    ``len()`` is its size in bytes. It may be iterated more than once. A compressed archive is decompressed.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        try:
            file.seek(0)
            self._tar = tarfile.open(fileobj=file, mode="r:*")  # noqa: SIM115 - the file is the caller's
            self._kept, manifest = self._read()
        except (*_DAMAGED, OSError, ValueError) as exc:
            raise _unusable(f"it is no tar archive ({exc})") from exc
        self._tail = _tail([{**manifest, "RepoTags": [name]}])

    def __len__(self) -> int:
        return sum(end - start for start, end in self._kept) + len(self._tail)

    def __iter__(self) -> Iterator[bytes]:
        data: Any = self._tar.fileobj
        for start, end in self._kept:
            data.seek(start)
            while start < end and (piece := data.read(min(_PIECE, end - start))):
                start += len(piece)
                yield piece
        yield self._tail

    def _read(self) -> tuple[list[tuple[int, int]], dict[str, Any]]:
        """Return the ranges of bytes without the naming files, and the manifest of the image."""
        kept: list[tuple[int, int]] = []
        naming: dict[str, tarfile.TarInfo] = {}
        files: dict[str, tarfile.TarInfo] = {}
        end = 0
        for number, member in enumerate(self._tar):
            if number == _MOST_MEMBERS:
                raise _unusable(f"it has more than {_MOST_MEMBERS} files")
            if member.sparse is not None:
                raise _unusable(f"its {member.name[:100]} is a sparse file")
            path = posixpath.normpath(f"/{member.name}").lstrip("/")
            end_of_member = member.offset_data + (-(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
            if path in _NAMING:
                naming[path] = member
            else:
                files[path] = member
                if kept and kept[-1][1] == end:
                    kept[-1] = (kept[-1][0], end_of_member)
                else:
                    kept.append((end, end_of_member))
            end = end_of_member
        if _DOCKER in naming:
            manifests = self._json(naming[_DOCKER])
            if not isinstance(manifests, list) or len(manifests) != 1:
                raise _unusable(f"its {_DOCKER} does not name one image; save one image with 'docker save'")
            found = _members(manifests[0], Config=str, Layers=list)
        elif _OCI in naming:
            found = self._of_oci(naming[_OCI], files)
        else:
            raise _unusable(f"it has neither {_DOCKER} nor {_OCI}; make it with 'docker save', not 'docker export'")
        return kept, found

    def _of_oci(self, index: tarfile.TarInfo, files: dict[str, tarfile.TarInfo]) -> dict[str, Any]:
        """Return what Docker's own manifest says, made of an image layout of OCI.

        The index may name an image, or an index that names the image for each platform.
        """
        found = self._json(files[_only_image(self._json(index), files)])
        if isinstance(found, dict) and "manifests" in found:
            found = self._json(files[_only_image(found, files)])
        manifest = _members(found, config=dict, layers=list)
        return {"Config": _blob(manifest["config"]), "Layers": [_blob(each) for each in manifest["layers"]]}

    def _json(self, member: tarfile.TarInfo) -> Any:
        if not member.isreg() or member.size > _MOST_JSON:
            raise _unusable(f"its {member.name[:100]} is no file of at most {_MOST_JSON // MIB} MiB")
        file = self._tar.extractfile(member)
        assert file is not None  # it is a regular file
        try:
            return json.loads(file.read())
        except RecursionError:
            raise _unusable(f"its {member.name[:100]} is nested too deeply") from None


def _only_image(index: Any, files: Container[str]) -> str:
    """Return the file of the one image that an index of OCI names.

    Attestations are left out, and images that are not in the archive: a tool that saves one platform of an image keeps
    the index of all of them.
    """
    named = {_blob(each): _platform(each) for each in _members(index, manifests=list)["manifests"]}
    images = {path: platform for path, platform in named.items() if "unknown" not in platform.split("/")}
    here = {path: platform for path, platform in images.items() if path in files}
    if len(here) > 1:
        platforms = sorted(filter(None, here.values()))
        of = f", for {', '.join(platforms)[:100]}" if platforms else ""
        raise _unusable(f"its index names {len(here)} images{of}; save one image, for one platform")
    if not here:
        lacking = next(iter(images), None)
        raise _unusable("its index names no image" if lacking is None else f"it lacks {lacking[:100]}")
    return next(iter(here))


def _platform(described: Any) -> str:
    """Return the platform of a member of an index, for example ``linux/arm64/v8``; empty if it has none."""
    platform = described.get("platform")
    parts = [platform.get(name) for name in ("os", "architecture", "variant")] if isinstance(platform, dict) else []
    return "/".join(part for part in parts if isinstance(part, str))


def _blob(described: Any) -> str:
    """Return the file of what a member of OCI describes."""
    return "blobs/" + str(_members(described, digest=str)["digest"]).replace(":", "/", 1)


def _members(value: Any, **kinds: type) -> dict[str, Any]:
    """Return these members of a JSON object, each checked to be of its kind."""
    if not isinstance(value, dict) or not all(isinstance(value.get(name), kind) for name, kind in kinds.items()):
        raise _unusable(f"it does not say {' and '.join(kinds)} where it should")
    return {name: value[name] for name in kinds}


def _tail(manifest: Any) -> bytes:
    """Return the end of a tar archive that has Docker's manifest as its last file."""
    data = json.dumps(manifest).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo(_DOCKER)
        info.size, info.mode = len(data), 0o644
        tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _unusable(reason: str) -> exceptions.Invalid:
    return exceptions.Invalid(f"The data of the image is not the archive of an image: {reason}.")
