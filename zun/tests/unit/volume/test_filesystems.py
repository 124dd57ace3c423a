# SPDX-License-Identifier: Apache-2.0
"""What blkid finds on devices, here plain files: only an empty one may get a file system.

``ZUN_TEST_UTIL_LINUX`` names the folder of another release's unpacked packages: util-linux and the libraries that it
needs, libc6 among them. Then its blkid and wipefs are tried instead of those of this machine.
"""

import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import uuid
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zun.common import exceptions
from zun.volume import filesystems, places
from zun.volume.filesystems import Content

MIB = 1 << 20
OTHER_RELEASE = os.environ.get("ZUN_TEST_UTIL_LINUX")
_BIN = tempfile.TemporaryDirectory()
PATH = f"{_BIN.name}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
for _name in ("blkid", "wipefs") if OTHER_RELEASE else ():
    _lib = f"{OTHER_RELEASE}/usr/lib"
    _run = f'exec {_lib}64/ld-linux-x86-64.so.2 --library-path {_lib}/x86_64-linux-gnu {OTHER_RELEASE}/usr/sbin/{_name}'
    pathlib.Path(_BIN.name, _name).write_text(f'#!/bin/sh\n{_run} "$@"\n')
    pathlib.Path(_BIN.name, _name).chmod(0o755)

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


def gpt_backup(device):
    """Write the second header of a GPT, at the end, whose first one was overwritten."""
    sectors, entries = 64 * MIB // 512, bytes(128 * 128)
    place = struct.pack(
        "<QQQQ16sQIII", sectors - 1, 1, 34, sectors - 34, b"g" * 16, sectors - 33, 128, 128, zlib.crc32(entries)
    )

    def header(checksum):
        return struct.pack("<8sIIII", b"EFI PART", 0x10000, 92, checksum, 0) + place

    write(device, ((sectors - 1) * 512, header(zlib.crc32(header(0)))))


def md(device):
    """Write the superblock of a member of a RAID 1, 1.2, of which libblkid wants the sum of all words."""
    head = struct.pack("<IIII16s32sQIIQIII", 0xA92B4EFC, 1, 0, 0, b"m" * 16, b"host:0", 0, 1, 0, 65536, 0, 2, 0)
    rest = struct.pack("<IQIIII", 0, 0, 0, 0, 0, 0) + struct.pack(
        "<QQQQII16sB7x", 2048, 65536, 8, 0, 0, 0, b"d" * 16, 0
    )
    ends = struct.pack("<QQQII32x", 0, 1, 0, 0, 2)
    whole = bytearray(head + rest + ends + bytes(4))
    struct.pack_into(
        "<I", whole, 216, (total := sum(struct.unpack(f"<{len(whole) // 4}I", whole))) + (total >> 32) & 0xFFFFFFFF
    )
    write(device, (4096, whole))


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


def damaged(device):
    """Write an ext4 whose superblock has a wrong checksum. blkid of release 2.38 says nothing of that."""
    mkfs("mkfs.ext4", "-q", "-F", "-O", "metadata_csum")(device)
    write(device, (1024 + 0x3FC, b"\xde\xad\xbe\xef"))


def overwritten(device):
    """Write an ext4 that has lost its superblock."""
    mkfs("mkfs.ext4", "-q", "-F")(device)
    write(device, (1024, bytes(1024)))


def swap(device):
    mkfs("mkswap")(device)


def at(offset):
    """Write one byte: of an application without a file system, or of a partition whose table is lost."""
    return lambda device: write(device, (offset % (64 * MIB), b"x"))


REFUSED = {
    "dos-table": (dos, r"holds a partition table \(dos\)"),
    "protective-table": (gpt, "holds a partition table"),
    "luks1": (luks(1), "holds a crypto_LUKS"),
    "luks2": (luks(2), "holds a crypto_LUKS"),
    "lvm": (lvm, "holds a LVM2_member"),
    "md": (md, "holds a linux_raid_member"),
    "swap": (swap, "holds a swap"),
    "btrfs": (mkfs("mkfs.btrfs", "-q"), "holds a btrfs"),
    "gpt-backup": (gpt_backup, r"a damaged one \(gpt\)"),
    "no-superblock": (overwritten, "data without a known signature"),
    "first-byte": (at(0), "data without a known signature"),
    "first-partition": (at(MIB + 1024), "data without a known signature"),
    "last-byte": (at(-1), "data without a known signature"),
    "vfat": (vfat, "holds a vfat"),
    "minix": (mkfs("mkfs.minix"), "holds a minix"),
    "cramfs": (lambda device: mkfs("mkfs.cramfs", str(device.parent))(device), "holds a cramfs"),
    "lvm-over-ext4": (ext4_and_lvm, "holds a LVM2_member"),
    "two-signatures": (ext4_and_cramfs, "several signatures"),
}


OF_LATER_RELEASES = {"ext4": mkfs("mkfs.ext4", "-q", "-F"), "xfs": xfs, "damaged": damaged, "overwritten": overwritten}


def program(folder, name, *lines):
    folder.mkdir(exist_ok=True)
    made = folder / name
    made.write_text("\n".join(("#!/bin/sh", *lines, "")))
    made.chmod(0o755)


@pytest.fixture
def later_blkid(tmp_path, monkeypatch):
    """blkid as of util-linux 2.41 on a device that it cannot make out: status 2, as on an empty one."""
    program(tmp_path / "bin", "blkid", "exit 2")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{PATH}")


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_mounted(device, what):
    write_it, told = REFUSED[what]
    write_it(device)
    before = device.read_bytes()
    with pytest.raises(exceptions.VolumeError, match=told):
        filesystems.content(str(device))
    assert device.read_bytes() == before


@pytest.mark.usefixtures("later_blkid")
@pytest.mark.parametrize("what", [*REFUSED, *OF_LATER_RELEASES])
def test_no_signature_of_blkid_is_not_empty(device, what):
    (OF_LATER_RELEASES.get(what) or REFUSED[what][0])(device)
    before = device.read_bytes()
    with pytest.raises(exceptions.VolumeError, match="Nothing was changed"):
        filesystems.content(str(device))
    assert device.read_bytes() == before


@pytest.mark.usefixtures("later_blkid")
def test_zeros_are_empty_for_every_blkid(device):
    assert filesystems.content(str(device)) is None


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(offset=st.integers(0, filesystems.EDGE - 1), end=st.booleans(), byte=st.integers(1, 255))
def test_no_byte_at_either_end_is_lost(tmp_path, offset, end, byte):
    device = tmp_path / "drawn"
    device.write_bytes(b"")
    os.truncate(device, 64 * MIB)
    write(device, (64 * MIB - 1 - offset if end else offset, bytes([byte])))
    with pytest.raises(exceptions.VolumeError, match="Nothing was changed"):
        filesystems.content(str(device))


@pytest.mark.parametrize("copy", [
    pytest.param(mkfs("mkfs.ext4", "-q", "-F", "-b", "1024"), id="ext4-1k"),
    pytest.param(mkfs("mkfs.ext4", "-q", "-F", "-b", "2048"), id="ext4-2k"),
    pytest.param(mkfs("mkfs.ext4", "-q", "-F", "-b", "4096"), id="ext4-4k"),
    pytest.param(mkfs("mkfs.btrfs", "-q"), id="btrfs"),
    pytest.param(mkfs("mkfs.xfs", "-q"), id="xfs"),
    pytest.param(lambda device: write(device, (301 * MIB // 4, b"XFSB")), id="quarter"),
])  # fmt: skip
def test_a_copy_of_a_superblock_is_data(tmp_path, copy):
    """Somebody wrote zeros over the wrong disk. Its files can be brought back as long as nobody formats the disk."""
    device = tmp_path / "disk"
    device.write_bytes(b"")
    os.truncate(device, 301 * MIB)
    copy(device)
    for start in (0, 301 * MIB - filesystems.EDGE):
        write(device, (start, bytes(filesystems.EDGE)))
    before = device.read_bytes()
    with pytest.raises(exceptions.VolumeError, match=r"without a known signature.*Nothing was changed"):
        filesystems.content(str(device))
    assert device.read_bytes() == before


@pytest.fixture
def loop(device):
    """The device as a block device of the kernel."""
    made = subprocess.run(["losetup", "--find", "--show", device], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"needs loop devices: {made.stderr.strip()}")
    yield made.stdout.strip()
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


@pytest.mark.parametrize("user", ["mounted", "held"])
def test_a_device_that_the_kernel_uses_is_not_formatted(device, loop, tmp_path, user):
    """Mounted in a namespace that this one does not see, or held by LVM, a RAID or another program."""
    if user == "mounted":
        mkfs("mkfs.ext4", "-q", "-F")(loop)
        script = f"mount -t ext4 {loop} {tmp_path} && echo ready && read end"
        command = ["unshare", "--mount", "--propagation=private", "sh", "-c", script]
        beside = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if beside.stdout.readline() != "ready\n":
            pytest.skip("needs a mount namespace")
        assert loop not in pathlib.Path("/proc/self/mounts").read_text()
    else:
        held = os.open(loop, os.O_RDWR | os.O_EXCL)
    try:
        with pytest.raises(exceptions.VolumeError, match="is apparently in use by the system"):
            filesystems.make(loop)
    finally:
        if user == "mounted":
            beside.communicate("end\n")
        else:
            os.close(held)
    assert (filesystems.content(loop) is None) == (user == "held")


@settings(deadline=None, max_examples=200)
@given(size=st.integers(0, 1 << 50))
def test_what_must_be_zeros_lies_on_the_device(size):
    places = filesystems._places(size)
    assert all(0 <= start < end <= size for start, end in places)
    assert not size or (min(places)[0], max(end for _, end in places)) == (0, size)


def test_a_device_that_shrinks_while_it_is_read_is_not_empty(device, monkeypatch):
    """Zeros that were never read are no proof."""
    monkeypatch.setattr(filesystems, "_places", lambda size: [(0, size + 1)])
    with pytest.raises(OSError, match="1 bytes before byte 67108865 could not be read"):
        filesystems.content(str(device))


@pytest.mark.parametrize("size", [0, 4096, 5 * MIB])
def test_a_small_device_of_zeros_is_empty(tmp_path, size):
    device = tmp_path / "small"
    device.write_bytes(bytes(size))
    assert filesystems.content(str(device)) is None


@pytest.mark.parametrize("missing", ["blkid", "wipefs", "mkfs.ext4"])
def test_a_missing_program_is_named(device, tmp_path, monkeypatch, missing):
    for name in {"blkid", "wipefs"} - {missing}:
        program(tmp_path / "some", name, "exit 2" if name == "blkid" else "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "some"))
    before = device.read_bytes()
    with pytest.raises(exceptions.VolumeError, match=f"the host has no program {missing}"):
        filesystems.make(str(device)) if missing == "mkfs.ext4" else filesystems.content(str(device))
    assert device.read_bytes() == before


@pytest.mark.parametrize("name", ["blkid", "wipefs"])
@pytest.mark.parametrize("how", ["kill -SEGV $$", "kill -KILL $$", "exit 4", "exit 127"])
def test_a_program_that_crashes_proves_nothing(device, tmp_path, monkeypatch, name, how):
    program(tmp_path / "bin", name, how)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{PATH}")
    before = device.read_bytes()
    with pytest.raises(exceptions.VolumeError, match=f"{name}: it ended with status"):
        filesystems.content(str(device))
    assert device.read_bytes() == before


@pytest.mark.parametrize("what", ["ext4_and_cramfs", "overwritten", "lvm"])
def test_the_language_of_the_host_changes_nothing(device, monkeypatch, what):
    for name in ("LANG", "LC_ALL", "LANGUAGE"):
        monkeypatch.setenv(name, "de_DE.UTF-8")
    globals()[what](device)
    with pytest.raises(exceptions.VolumeError, match="Nothing was changed"):
        filesystems.content(str(device))


def test_a_program_that_fails_says_nothing_of_the_device(device, tmp_path, monkeypatch):
    program(tmp_path / "bin", "wipefs", 'echo "probing failed" >&2', "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{PATH}")
    with pytest.raises(exceptions.VolumeError, match="wipefs: probing failed"):
        filesystems.content(str(device))


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
    overwritten(device)
    assert filesystems.content(str(device), begun=True) is None
    filesystems.make(str(device))
    assert filesystems.content(str(device), begun=True) == Content("ext4", "zun")


@pytest.mark.parametrize("what", ["lvm", "swap", "gpt-backup", "two-signatures"])
def test_whoever_began_overwrites_no_signature(device, what):
    """Somebody else may have written since."""
    REFUSED[what][0](device)
    with pytest.raises(exceptions.VolumeError, match="Nothing was changed"):
        filesystems.content(str(device), begun=True)


def test_a_device_that_cannot_be_read(tmp_path):
    """blkid has the same exit status for it as for an empty one."""
    with pytest.raises(OSError, match="Is a directory"):
        filesystems.content(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        filesystems.content(str(tmp_path / "none"))


def test_what_the_kernel_has_mounted(tmp_path, monkeypatch):
    (listed := tmp_path / "proc/self/mountinfo").parent.mkdir(parents=True)
    place = tmp_path / "a b"
    place.mkdir()
    spelt = str(place).replace(" ", "\\040")
    listed.write_text(f"36 35 98:0 / {spelt}/fs rw,noatime master:1 - ext4 /dev/root rw\n")
    monkeypatch.setattr(places, "ROOT", tmp_path)
    (link := tmp_path / "link").symlink_to(place)
    asked = [place / "fs", link / "fs", place / "other", place, tmp_path / "gone" / "fs"]
    assert [filesystems.mounted(each) for each in asked] == [True, True, False, False, False]
    monkeypatch.undo()
    assert filesystems.mounted(pathlib.Path("/proc")) and not filesystems.mounted(place)


@pytest.mark.parametrize("question", [filesystems.mounted, filesystems.there])
def test_a_question_that_fails_is_no_answer(tmp_path, question):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        question(tmp_path / "loop" / "fs")


def test_a_link_that_leads_nowhere_is_there(tmp_path):
    """It may lead to a disk that is not mounted."""
    (tmp_path / "image").symlink_to("/nowhere/image")
    assert filesystems.there(tmp_path / "image") and not filesystems.there(tmp_path / "other")
