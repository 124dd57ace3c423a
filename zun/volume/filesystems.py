# SPDX-License-Identifier: Apache-2.0
"""File systems of block devices: what is on one, making one, and mounting it with options that protect the host."""

import os
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from zun.common import exceptions

COMMAND_SECONDS = 120

NEW = "ext4"
#: Label of the file systems that this service makes. Their containers get the folder DATA, beside lost+found.
LABEL = "zun"
DATA = "data"

_EXT = ("ext4", "ext3", "ext2")
#: Kinds that are mounted, with the options that a volume's content must not choose: a superblock can ask the kernel to
#: panic on an error.
_OPTIONS = {**dict.fromkeys(_EXT, ("errors=remount-ro",)), "xfs": ("nouuid",)}
_READ_ONLY = {"ext4": ("noload",), "ext3": ("noload",), "ext2": (), "xfs": ("norecovery",)}


@dataclass(frozen=True, slots=True)
class Content:
    """What is at the begin of a device: the kind and the label of a file system."""

    kind: str
    label: str


def content(device: str) -> Content | None:
    """Return what is on the device, or None if it has no signature at all.

    Raises OSError if the device cannot be read, and VolumeError if it has something else than one file system that can
    be mounted. blkid's status 2 means both an empty device and one that cannot be read.
    """
    with open(device, "rb") as file:
        file.read(4096)
    found = subprocess.run(
        ["blkid", "-p", "-o", "export", device], capture_output=True, text=True, timeout=COMMAND_SECONDS
    )
    if found.returncode == 2:
        return None
    if found.returncode:
        raise exceptions.VolumeError(f"blkid finds several signatures on the volume, or none for sure "
                                     f"(status {found.returncode}). Write one file system to the volume")  # fmt: skip
    values = dict(line.split("=", 1) for line in found.stdout.splitlines() if "=" in line)
    kind = values.get("TYPE")
    if kind not in _OPTIONS:
        what = f"a {kind}" if kind else f"a partition table ({values.get('PTTYPE', 'unknown')})"
        raise exceptions.VolumeError(
            f"the volume holds {what}, and only {', '.join(_OPTIONS)} are mounted. Nothing was changed"
        )
    return Content(kind, values.get("LABEL", ""))


def make(device: str) -> None:
    """Make an empty file system of this service on the device."""
    # -m 0: no blocks reserved for root. -F: on a whole device, or over an attempt that was interrupted.
    _run("mkfs.ext4", "-q", "-F", "-m", "0", "-L", LABEL, device)


def options(kind: str, *, read_only: bool, file: bool) -> str:
    """Return the options of mount. ``file``: the device is a file, as of an NFS server."""
    chosen = ["nodev", "nosuid", *_OPTIONS[kind]]
    if read_only:
        chosen += ["ro", *_READ_ONLY[kind]]
    if file:
        chosen.append("loop")
    return ",".join(chosen)


def mount(device: str, target: Path, kind: str, *, read_only: bool) -> None:
    """Mount the device at ``target``, which is made."""
    file = stat.S_ISREG(os.stat(device).st_mode)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target.mkdir(mode=0o700, exist_ok=True)
    _run("mount", "-t", kind, "-o", options(kind, read_only=read_only, file=file), device, str(target))


def mounted(target: Path) -> bool:
    return os.path.ismount(target)


def unmount(target: Path) -> None:
    """Unmount ``target``, if something is mounted there, and remove the folder."""
    if mounted(target):
        _run("umount", str(target))
    if target.exists():
        target.rmdir()  # fails while something is mounted: nothing below is ever removed


def add_data(target: Path) -> None:
    """Make the folder DATA of a file system of this service."""
    data = target / DATA
    if not data.exists():
        data.mkdir()
        data.chmod(0o777)  # for any user of the image; the parent folders are closed to users of the host


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=COMMAND_SECONDS)
    except subprocess.CalledProcessError as exc:
        raise exceptions.VolumeError(f"{command[0]}: {(exc.stderr or exc.stdout).strip()}") from exc
    except subprocess.TimeoutExpired as exc:
        raise exceptions.VolumeError(f"{command[0]} did not end within {COMMAND_SECONDS} s") from exc
