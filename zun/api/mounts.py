# SPDX-License-Identifier: Apache-2.0
"""Convert ``mounts`` of a create request. No I/O."""

import base64
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from zun.api import limits, microversion
from zun.api.microversion import Version
from zun.api.schemas import scalars
from zun.api.settings import Range
from zun.common import exceptions
from zun.common.mounts import Kind, Mount
from zun.common.units import MIB_PER_GIB

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{1,127}")
_UUID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_MOST_MIB = 1 << 40
_SIZE = re.compile(r"([0-9]{1,18})([MG]?)")


def mounts(
    given: Sequence[Mapping[str, Any]] | None,
    *,
    version: Version,
    memory_mib: int,
    disk: Range,
    cinder: bool = False,
) -> list[Mount]:
    """Return the requested mounts. ``disk`` is the range of GiB for a local mount. Raises InvalidValue.

    With ``cinder``, mounts of the type volume are volumes of Cinder, by the id or name that the request gave.
    """
    found = [_mount(item, version, memory_mib, disk, cinder=cinder) for item in given or ()]
    targets = [mount.destination for mount in found]
    for target in targets:
        if targets.count(target) > 1:
            raise _wrong(f"destination '{target[:64]}' is given twice")
    files = sum(_decoded_bytes(mount.source or "") for mount in found if mount.kind is Kind.BIND)
    if files > limits.FILES_BYTES:
        raise _wrong(
            f"the files have {files} bytes together of {limits.FILES_BYTES}. Put large ones with put_archive"
        )
    return found


def size_mib(given: Any, lowest: int, highest: int, *, suffixes: bool) -> int:
    """Return a size in MiB, given in GiB or, with ``suffixes``, also as text such as ``64M`` or ``2G``. Raises
    ValueError.

    ``lowest`` and ``highest`` are MiB.
    """
    found = None if isinstance(given, bool) else _SIZE.fullmatch(str(given))
    if found is None or (found[2] and not suffixes):
        raise ValueError("is not a whole number of GiB" + (", or of MiB as in '64M'" if suffixes else ""))
    size = int(found[1]) * (1 if found[2] == "M" else MIB_PER_GIB)
    if not lowest <= size <= highest:
        raise ValueError(f"is {size} MiB, which is not between {lowest} and {highest} MiB")
    return size


def destination(given: str) -> str:
    """Return a path in the container in the form that the runtime takes. Raises ValueError."""
    path = posixpath.normpath(given)
    if not path.startswith("/") or ".." in given.split("/") or "\0" in given or len(given) > 255:
        raise ValueError(f"'{given[:64]}' is not an absolute path without '..' of at most 255 characters")
    path = "/" + path.lstrip("/")
    if path == "/":
        raise ValueError("the root of the container cannot be mounted over")
    return path


def _mount(item: Mapping[str, Any], version: Version, memory_mib: int, disk: Range, *, cinder: bool) -> Mount:
    mount = _writable(item, version, memory_mib, disk, cinder=cinder)
    if item.get("read_only") is None:
        return mount
    microversion.require_for("mounts.read_only", version, microversion.CINDER)
    read_only = scalars.B3.convert(item["read_only"])
    if read_only and mount.kind is Kind.TMPFS:
        raise _wrong(f"{mount.destination}: nothing could ever be in a read-only tmpfs; leave read_only out")
    if read_only and mount.kind is Kind.CINDER and mount.source is None:
        raise _wrong(f"{mount.destination}: nothing could ever be in a new read-only volume; leave read_only out")
    return replace(mount, read_only=read_only)


def _writable(item: Mapping[str, Any], version: Version, memory_mib: int, disk: Range, *, cinder: bool) -> Mount:
    """Return the mount without regard to ``read_only``."""
    try:
        target = destination(item["destination"])
    except ValueError as exc:
        raise _wrong(f"destination: {exc}") from None
    kind, source, size = item.get("type") or "volume", item.get("source") or None, item.get("size")
    if kind == "bind":
        return _file(target, source, size)
    if kind == "tmpfs":
        microversion.require_for("mounts.type tmpfs", version, microversion.MOUNTS)
        if source is not None:
            raise _wrong(f"{target}: a tmpfs has a size and no source")
        return Mount(Kind.TMPFS, target, size_mib=_size(target, size, 1, memory_mib, suffixes=True))
    if kind == "local":
        microversion.require_for("mounts.type local", version, microversion.CINDER)
    elif kind != "volume":
        raise _wrong(f"type '{str(kind)[:64]}' is not one of volume, bind, tmpfs, local")
    if source is not None and size not in (None, ""):
        raise _wrong(f"{target}: a volume has either a source or the size of a new one; leave one out")
    suffixes = version >= microversion.MOUNTS
    if cinder and kind == "volume":
        if source is not None:
            return Mount(Kind.CINDER, target, source=_cinder_volume(target, source))
        found = _size(target, size, MIB_PER_GIB, _MOST_MIB, suffixes=suffixes)
        if found % MIB_PER_GIB:
            raise _wrong(f"{target}: size '{str(size)[:32]}' is not a whole number of GiB, as volumes of Cinder have")
        return Mount(Kind.CINDER, target, size_mib=found, owned=True)
    if source is not None:
        return Mount(Kind.VOLUME, target, source=_volume(target, source))
    highest = int(disk.highest) * MIB_PER_GIB
    return Mount(Kind.LOCAL, target, size_mib=_size(target, size, 1, highest, suffixes=suffixes))


def _size(target: str, given: Any, lowest: int, highest: int, *, suffixes: bool) -> int:
    try:
        return size_mib(given, lowest, highest, suffixes=suffixes)
    except ValueError as exc:
        raise _wrong(f"{target}: size '{str(given)[:32]}' {exc}") from None


def _cinder_volume(target: str, source: str) -> str:
    if len(source) > 255 or "/" in source:
        raise _wrong(
            f"{target}: source '{source[:64]}' is not the id or the name of a volume. Paths of a host cannot be mounted"
        )
    return source


def _volume(target: str, source: str) -> str:
    if _UUID.fullmatch(source):
        raise _wrong(
            f"{target}: source '{source}' is the id of a Cinder volume, and this installation has no Cinder. Name a "
            "volume of the project, which is made at its first use"
        )
    if not _NAME.fullmatch(source):
        raise _wrong(
            f"{target}: source '{source[:64]}' is not the name of a volume: give 2 to 128 letters, digits, '_', '.', "
            "'-'. Paths of a host cannot be mounted"
        )
    return source


def _file(target: str, source: str | None, size: Any) -> Mount:
    if source is None or size not in (None, ""):
        raise _wrong(f"{target}: a bind has the content of its file in base64 as its source, and no size")
    try:
        base64.b64decode(source, validate=True)
    except ValueError as exc:
        raise _wrong(
            f"{target}: the source of a bind is the content of its file in base64, and this is not base64: {exc}. "
            "Paths of a host cannot be mounted"
        ) from None
    return Mount(Kind.BIND, target, source=source)


def _decoded_bytes(encoded: str) -> int:
    return len(encoded) // 4 * 3 - encoded.count("=")


def _wrong(reason: str) -> exceptions.InvalidValue:
    return exceptions.InvalidValue(f"mounts: {reason}.")
