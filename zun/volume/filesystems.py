# SPDX-License-Identifier: Apache-2.0
"""File systems of block devices: what is on one, making one, and mounting it with options that protect the host."""

import errno
import io
import os
import stat
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from zun.common import exceptions
from zun.volume.places import mount_points, there

COMMAND_SECONDS = 120

NEW = "ext4"
#: Label of the file systems that this service makes. Their containers get the folder DATA, beside lost+found.
LABEL = "zun"
DATA = "data"

_EXT = ("ext4", "ext3", "ext2")
#: Kinds that are mounted, with the options that a volume's content must not choose: a superblock can ask the kernel to
#: panic on an error.
_OPTIONS = {**dict.fromkeys(_EXT, ("errors=remount-ro",)), "xfs": ("nouuid",)}
#: Bytes at the begin and at the end of a device that must be zeros before a file system is made. Tables of partitions,
#: superblocks and their first copies, and the first partition lie there.
EDGE = 4 << 20
#: Places of copies of superblocks, from which the data of a device with an overwritten begin can be brought back: of
#: ext4 with blocks of 1, 2 and 4 KiB (8, 32 and 128 MiB), and of btrfs (64 MiB and 256 GiB). The four groups of an XFS
#: begin at the quarters of its device, rounded to blocks. COPY bytes from each place must be zeros, and COPY bytes
#: before a quarter too.
COPIES = (8 << 20, 32 << 20, 64 << 20, 128 << 20, 256 << 30)
COPY = 64 << 10
_READ_ONLY = {"ext4": ("noload",), "ext3": ("noload",), "ext2": (), "xfs": ("norecovery",)}


@dataclass(frozen=True, slots=True)
class Content:
    """What is at the begin of a device: the kind and the label of a file system."""

    kind: str
    label: str


def content(device: str, *, begun: bool = False) -> Content | None:
    """Return what is on the device, or None if the device is empty.

    A device is empty if blkid and wipefs find no signature, and its first and last EDGE bytes and the places of COPIES
    are zeros. ``begun``: this service began to make a file system on the empty device. Then only signatures count.

    Raises OSError if the device cannot be read, and VolumeError if it has something else than one file system that can
    be mounted. blkid alone cannot tell an empty device: its status 2 also means a device that it cannot read and, in
    release 2.41, several signatures or a wrong checksum. wipefs lists every signature in each release.
    """
    blank = _blank(device)
    found = run("blkid", "-p", "-o", "export", device, allowed=(0, 2, 8))
    values = dict(line.split("=", 1) for line in found.stdout.splitlines() if "=" in line)
    if found.returncode == 0 and (kind := values.get("TYPE")) in _OPTIONS:
        return Content(kind, values.get("LABEL", ""))
    listed = run("wipefs", "--no-act", "--noheadings", "--output", "TYPE", device).stdout.split()
    if found.returncode == 2 and not listed:
        if blank or begun:
            return None
        what = "data without a known signature"
    elif found.returncode == 0:
        what = f"a {kind}" if kind else f"a partition table ({values.get('PTTYPE', 'unknown')})"
    else:
        what = f"several signatures or a damaged one ({', '.join(dict.fromkeys(listed)) or 'unknown'})"
    raise exceptions.VolumeError(
        f"the volume holds {what}. Nothing was changed. Only a file system of {', '.join(_OPTIONS)} is mounted, and "
        "one is made only where nothing is: repair the volume, write zeros over the whole of it, or use a new one"
    )


def _blank(device: str) -> bool:
    """Return whether the places of ``_places`` are zeros. Raises OSError."""
    with open(device, "rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        return all(_zeros(file, start, end) for start, end in _places(size))


def _places(size: int) -> list[tuple[int, int]]:
    """Return the begin and the end of each part that must be zeros on a device of so many bytes."""
    quarters = (size // 4 * each for each in (1, 2, 3))
    found = [(0, EDGE), (size - EDGE, size)]
    found += [(place, place + COPY) for place in COPIES] + [(place - COPY, place + COPY) for place in quarters]
    cut = ((max(0, start), min(end, size)) for start, end in found)
    return [(start, end) for start, end in cut if start < end]


def _zeros(file: io.FileIO, start: int, end: int) -> bool:
    file.seek(start)
    while (left := end - file.tell()) > 0:
        piece = file.read(min(left, 1 << 20))
        if not piece:
            raise OSError(errno.EIO, f"{left} bytes before byte {end} could not be read")
        if piece.count(0) != len(piece):
            return False
    return True


def make(device: str) -> None:
    """Make an empty file system of this service on the device."""
    # -m 0: no blocks reserved for root. -F: on a whole device, or over an attempt that was interrupted.
    run("mkfs.ext4", "-q", "-F", "-m", "0", "-L", LABEL, device)


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
    target.parent.chmod(0o700)  # the mounted file system has a mode of its own
    target.mkdir(mode=0o700, exist_ok=True)
    run("mount", "-t", kind, "-o", options(kind, read_only=read_only, file=file), device, str(target))


def mounted(target: Path) -> bool:
    """Return whether something is mounted at ``target``, as the kernel's list says. Raises OSError.

    The list answers even where the file system itself does not, as with a disk that is gone.
    """
    try:
        place = os.path.join(os.path.realpath(target.parent, strict=True), target.name)
    except FileNotFoundError:
        return False
    return place in mount_points()


def unmount(target: Path) -> None:
    """Unmount ``target``, if something is mounted there, and remove the folder."""
    if mounted(target):
        run("umount", str(target))
    if there(target):
        target.rmdir()  # fails while something is mounted: nothing below is ever removed


def add_data(target: Path) -> None:
    """Make the folder DATA of a file system of this service."""
    data = target / DATA
    if not there(data):
        data.mkdir()
        data.chmod(0o777)  # for any user of the image; the parent folders are closed to users of the host


def run(*command: str, allowed: Collection[int] = (0,)) -> subprocess.CompletedProcess[str]:
    """Run a command of the host. Raises VolumeError if it is missing or ends with another status than ``allowed``."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=COMMAND_SECONDS)
    except FileNotFoundError as exc:
        raise exceptions.VolumeError(f"the host has no program {command[0]}. Tell its operator to install it") from exc
    except OSError as exc:
        raise exceptions.VolumeError(f"{command[0]} cannot be run: {exc.strerror}") from exc
    except subprocess.TimeoutExpired as exc:
        raise exceptions.VolumeError(f"{command[0]} did not end within {COMMAND_SECONDS} s") from exc
    if done.returncode not in allowed:
        told = (done.stderr or done.stdout).strip() or f"it ended with status {done.returncode}"
        raise exceptions.VolumeError(f"{command[0]}: {told}")
    return done
