# SPDX-License-Identifier: Apache-2.0
"""What blkid finds on devices, here plain files: only an empty one may get a file system."""

import os
import shutil
import struct
import subprocess
import uuid
import zlib

import pytest

from zun.common import exceptions
from zun.volume import filesystems
from zun.volume.filesystems import Content

MIB = 1 << 20
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

pytestmark = pytest.mark.skipif(shutil.which("blkid", path=PATH) is None, reason="needs blkid")


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.setenv("PATH", PATH)


@pytest.fixture
def device(tmp_path):
    """A device of 64 MiB zeros."""
    made = tmp_path / "device"
    with made.open("wb") as file:
        file.truncate(64 * MIB)
    return made


def write(device, *pieces):
    """Write pieces of data at their offsets."""
    with device.open("r+b") as file:
        for offset, data in pieces:
            file.seek(offset)
            file.write(data)


def mkfs(command, *options):
    def make(device):
        if shutil.which(command, path=PATH) is None:
            pytest.skip(f"needs {command}")
        subprocess.run([command, *options, device], check=True, capture_output=True)

    return make


def dos(device):
    """Write a table of one Linux partition."""
    entry = struct.pack("<B3xB3xII", 0, 0x83, 2048, 65536)
    write(device, (440, struct.pack("<I", 0x1234ABCD)), (446, entry), (510, b"\x55\xaa"))


def gpt(device):
    """Write only the protective partition of a GPT, which blkid takes for a dos table."""
    entry = struct.pack("<B3xB3xII", 0, 0xEE, 1, 64 * MIB // 512 - 1)
    write(device, (446, entry), (510, b"\x55\xaa"))


def luks(version):
    def make(device):
        header = struct.pack(">6sH", b"LUKS\xba\xbe", version)
        name = str(uuid.uuid4()).encode()
        write(device, (0, header), (168, name))
        if version == 2:
            write(device, (8, struct.pack(">QQ", 16384, 1)), (4096 * 4, struct.pack(">6sH", b"SKUL\xba\xbe", version)))

    return make


def lvm(device):
    """Write the label of a physical volume of LVM into the second sector."""
    summed = struct.pack("<I8s32s", 32, b"LVM2 001", b"a" * 32).ljust(512 - 20, b"\0")
    checksum = ~zlib.crc32(summed, ~0xF597A6CF & 0xFFFFFFFF) & 0xFFFFFFFF
    write(device, (512, struct.pack("<8sQI", b"LABELONE", 1, checksum) + summed))


def vfat(device):
    """Write the boot sector of a FAT16 of 64 MiB."""
    sizes = struct.pack("<HBHBHHBHHHII", 512, 4, 1, 2, 512, 0, 0xF8, 128, 32, 2, 0, 64 * MIB // 512)
    name = struct.pack("<BBBI11s8s", 0x80, 0, 0x29, 1, b"theirs", b"FAT16   ")
    write(device, (0, b"\xeb\x3c\x90mkfs.fat" + sizes + name), (510, b"\x55\xaa"))


def xfs(device):
    """Write the superblock of an XFS of 4 groups of 4096 blocks, in sectors of 512 bytes and inodes of 256."""
    sizes = struct.pack(">4sI3Q16s4Q5I", b"XFSB", 4096, 16384, 0, 0, b"u" * 16, 8, 128, 129, 130, 1, 4096, 4, 0, 1024)
    more = struct.pack(">4H12s8B4Q", 0xB4A4, 512, 256, 16, b"theirs", 12, 9, 8, 4, 12, 0, 0, 25, 64, 61, 15000, 0)
    write(device, (0, sizes + more))


def ext4_and_lvm(device):
    mkfs("mkfs.ext4", "-q", "-F")(device)
    lvm(device)


def ext4_and_cramfs(device):
    mkfs("mkfs.ext4", "-q", "-F")(device)
    write(device, (0, struct.pack("<IIII16s16s16s", 0x28CD3D45, MIB, 0, 0, b"Compressed ROMFS", b"", b"theirs")))


REFUSED = {
    "dos-table": (dos, r"holds a partition table \(dos\)"),
    "protective-table": (gpt, "holds a partition table"),
    "luks1": (luks(1), "holds a crypto_LUKS"),
    "luks2": (luks(2), "holds a crypto_LUKS"),
    "lvm": (lvm, "holds a LVM2_member"),
    "swap": (mkfs("mkswap"), "holds a swap"),
    "vfat": (vfat, "holds a vfat"),
    "minix": (mkfs("mkfs.minix"), "holds a minix"),
    "cramfs": (lambda device: mkfs("mkfs.cramfs", str(device.parent))(device), "holds a cramfs"),
    "lvm-over-ext4": (ext4_and_lvm, "holds a LVM2_member"),
    "two-signatures": (ext4_and_cramfs, "several signatures"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_mounted(device, what):
    write_it, told = REFUSED[what]
    write_it(device)
    before = device.read_bytes()
    with pytest.raises(exceptions.VolumeError, match=told):
        filesystems.content(str(device))
    assert device.read_bytes() == before


@pytest.mark.parametrize("kind", ["ext2", "ext3", "ext4", "xfs"])
def test_what_is_mounted_as_it_is(device, kind):
    make = xfs if kind == "xfs" else mkfs(f"mkfs.{kind}", "-q", "-L", "theirs")
    make(device)
    assert filesystems.content(str(device)) == Content(kind, "theirs")


def test_only_zeros_get_a_file_system(device):
    assert filesystems.content(str(device)) is None
    filesystems.make(str(device))
    assert filesystems.content(str(device)) == Content("ext4", "zun")


def test_an_interrupted_file_system_is_made_again(device):
    """The driver knows that it had begun, and does not ask for the content."""
    filesystems.make(str(device))
    write(device, (1024, b"\0" * 1024))
    filesystems.make(str(device))
    assert filesystems.content(str(device)) == Content("ext4", "zun")


def test_a_device_that_cannot_be_read(tmp_path):
    """blkid has the same exit status for it as for an empty one."""
    with pytest.raises(OSError, match="Is a directory"):
        filesystems.content(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        filesystems.content(str(tmp_path / "none"))
