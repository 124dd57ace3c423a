# SPDX-License-Identifier: Apache-2.0
"""The drivers that need nothing of a machine; the local one is tried on a real one, in tests/integration."""

import base64
import errno
import os
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common import exceptions
from zun.common.mounts import Kind, Mount
from zun.container.driver.lifecycle import RuntimeMount
from zun.objects import Container
from zun.objects.placement import cpuset_record
from zun.topology import CellShare, Plan
from zun.volume import memory, places
from zun.volume.fake import InMemoryVolumeDriver
from zun.volume.files import FileDriver
from zun.volume.local import LocalDriver
from zun.volume.memory import MemoryDriver
from zun.volume.runtime import NamedDriver, TmpfsDriver, volume_name

OWNER = "c0ffee00-0000-4000-8000-000000000000"


def test_a_file(tmp_path):
    driver = FileDriver(tmp_path / "files")
    mounts = [Mount(Kind.BIND, f"/etc/{n}", base64.b64encode(b"text %d" % n).decode()) for n in (0, 1)]
    made = [driver.prepare(OWNER, "demo", number, mount) for number, mount in enumerate(mounts)]
    assert [driver.prepare(OWNER, "demo", number, mount) for number, mount in enumerate(mounts)] == made
    assert [pathlib.Path(each.source).read_bytes() for each in made] == [b"text 0", b"text 1"]
    assert made[0] == RuntimeMount("bind", made[0].source, "/etc/0", read_only=True)
    assert (tmp_path / "files").stat().st_mode & 0o777 == 0o700
    driver.remove(OWNER, 0, mounts[0])
    assert pathlib.Path(made[1].source).exists() and not pathlib.Path(made[0].source).exists()
    driver.remove(OWNER, 1, mounts[1])
    driver.remove(OWNER, 1, mounts[1])
    assert list((tmp_path / "files").iterdir()) == []


def test_a_file_that_is_there_is_not_written_again(tmp_path):
    """An agent that is not root could not."""
    driver, mount = FileDriver(tmp_path), Mount(Kind.BIND, "/etc/x", base64.b64encode(b"text").decode())
    path = pathlib.Path(driver.prepare(OWNER, "demo", 0, mount).source)
    before = path.stat()
    driver.prepare(OWNER, "demo", 0, mount)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_file_that_was_half_written_is_written_again(tmp_path, monkeypatch):
    driver, mount = FileDriver(tmp_path), Mount(Kind.BIND, "/etc/x", base64.b64encode(b"text").decode())
    with monkeypatch.context() as broken:
        broken.setattr(pathlib.Path, "chmod", lambda path, mode: path.name == "content.new" and 1 / 0)
        with pytest.raises(ZeroDivisionError):
            driver.prepare(OWNER, "demo", 0, mount)
    made = driver.prepare(OWNER, "demo", 0, mount)
    assert pathlib.Path(made.source).read_bytes() == b"text"


def test_those_of_the_runtime():
    assert TmpfsDriver().prepare(OWNER, "demo", 0, Mount(Kind.TMPFS, "/d", size_mib=3)) == RuntimeMount(
        "tmpfs", "", "/d", size_bytes=3 * 1024 * 1024
    )
    assert NamedDriver().prepare(OWNER, "demo", 0, Mount(Kind.VOLUME, "/d", "data")) == RuntimeMount(
        "volume", volume_name("demo", "data"), "/d", labels={"zun.project": "demo", "zun.volume": "data"}
    )


@pytest.mark.parametrize("driver", [FileDriver, LocalDriver, MemoryDriver])
def test_what_cannot_be_removed_is_told(tmp_path, driver):
    """Or it would stay for ever."""
    mount = Mount(Kind.LOCAL, "/d", size_mib=1)
    place = tmp_path / OWNER / "0"
    place.parent.mkdir()
    place.touch()  # no folder
    with pytest.raises(exceptions.VolumeError, match=r"^Mount /d: .*Not a directory") as caught:
        driver(tmp_path).remove(OWNER, 0, mount)
    assert str(tmp_path) not in str(caught.value)
    place.unlink()
    driver(tmp_path).remove(OWNER, 0, mount)
    assert list(tmp_path.iterdir()) == []


def test_one_that_cannot_be_removed_keeps_no_other(context):
    class Half(InMemoryVolumeDriver):
        def remove(self, owner, number, mount):
            if number == 0:
                raise exceptions.VolumeError(mount=mount.destination, reason="busy")
            super().remove(owner, number, mount)

    driver = Half()
    mounts = [Mount(Kind.LOCAL, f"/{each}", size_mib=1).to_dict() for each in "ab"]
    container = Container(context, uuid=OWNER, project_id="demo", mounts=mounts, capsule_uuid=None, request={})
    volumes = driver.as_volumes()
    volumes.prepare(container)
    with pytest.raises(exceptions.VolumeError, match="Mount /a: busy"):
        volumes.remove(container)
    assert list(driver.made) == [(OWNER, 0)]


PARTS = (Plan({0: CellShare(memory_mib=64)}), Plan({1: CellShare(memory_mib=96)}, cpu_policy="shared"))
RECORDS = [{"containers": [0]}, {"containers": [1], "volumes": [0]}]


@pytest.mark.parametrize(
    ("plan", "placement", "node"),
    [
        pytest.param(Plan({2: CellShare(memory_mib=64)}), {}, 2, id="one-node"),
        pytest.param(Plan({1: CellShare(), 2: CellShare(memory_mib=64)}), {}, 2, id="memory-beside-the-cpus"),
        pytest.param(Plan({1: CellShare(memory_mib=1), 2: CellShare(memory_mib=64)}), {}, None, id="several-nodes"),
        pytest.param(Plan.joined(PARTS), {"members": RECORDS}, 1, id="part-that-has-the-volume"),
        pytest.param(None, {}, None, id="nothing-is-held"),
    ],
)
def test_volume_in_memory_knows_the_node_of_its_claim(context, plan, placement, node):
    driver = InMemoryVolumeDriver()
    mounts = [Mount(kind, "/d", size_mib=1, number=n).to_dict() for n, kind in enumerate((Kind.MEMORY, Kind.LOCAL))]
    held = cpuset_record(plan) if plan else None
    fields = {"project_id": "demo", "capsule_uuid": None, "request": {}, "placement": placement, "cpuset": held}
    driver.as_volumes().prepare(Container(context, uuid=OWNER, mounts=mounts, **fields))
    assert [driver.made[OWNER, number].node for number in (0, 1)] == [node, None]


@pytest.mark.parametrize(("node", "numa", "policy"), [(2, True, ",mpol=prefer:2"), (None, True, ""), (2, False, "")])
def test_tmpfs_prefers_the_node_of_the_claim(tmp_path, monkeypatch, node, numa, policy):
    """With a mount command that only says how it was called. A kernel without NUMA does not know the option."""
    tool, told = tmp_path / "mount", tmp_path / "told"
    tool.write_text(f'#!/bin/sh\necho "$@" > {told}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(memory, "NODES", tmp_path if numa else tmp_path / "none")
    MemoryDriver(tmp_path / "memory").restore(OWNER, 0, Mount(Kind.MEMORY, "/d", size_mib=8, node=node))
    target = tmp_path / "memory" / OWNER / "0" / "fs"
    assert told.read_text() == f"-t tmpfs -o size=8m,mode=0700,nodev,nosuid{policy} zun {target}\n"


TEXT = st.text("ab-", min_size=1, max_size=4)


@given(TEXT, TEXT, TEXT, TEXT)
def test_no_two_projects_meet_in_a_volume(project, name, other, other_name):
    same = volume_name(project, name) == volume_name(other, other_name)
    assert same == ((project, name) == (other, other_name))


def test_missing_local_volume_is_never_replaced_by_an_empty_one(tmp_path):
    with pytest.raises(exceptions.VolumeError, match="missing"):
        LocalDriver(tmp_path).restore(OWNER, 0, Mount(Kind.LOCAL, "/d", size_mib=1))
    assert list(tmp_path.iterdir()) == []


def test_a_made_container_gets_no_empty_volume(tmp_path):
    """The disk of the host may not be mounted."""
    mount = Mount(Kind.LOCAL, "/d", size_mib=1)
    with pytest.raises(exceptions.VolumeError, match=r"^Mount /d: .../image is missing, with the data"):
        LocalDriver(tmp_path).prepare(OWNER, "demo", 0, mount, again=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [Kind.LOCAL, Kind.BIND])
@pytest.mark.parametrize("error", [errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOTCONN])
def test_a_file_that_cannot_be_looked_at_stays(tmp_path, monkeypatch, kind, error):
    """Since Python 3.14 Path.exists answers False for every error, and Path.lstat does not use Path.stat."""
    (place := tmp_path / OWNER / "0").mkdir(parents=True)
    kept = place / ("image" if kind is Kind.LOCAL else "content")
    kept.write_bytes(b"theirs")

    def failing(ask):
        def look(path, **how):
            if path.name == kept.name:
                raise OSError(error, os.strerror(error))
            return ask(path, **how)

        return look

    for name in "stat", "lstat":
        monkeypatch.setattr(pathlib.Path, name, failing(getattr(pathlib.Path, name)))
    monkeypatch.setattr(pathlib.Path, "exists", os.path.exists)
    driver, mount = (LocalDriver if kind is Kind.LOCAL else FileDriver)(tmp_path), Mount(kind, "/d", "bmV3", 1)
    with pytest.raises(exceptions.VolumeError, match=f"Mount /d: .*{os.strerror(error)}"):
        driver.prepare(OWNER, "demo", 0, mount)
    monkeypatch.undo()
    assert kept.read_bytes() == b"theirs" and [each.name for each in place.iterdir()] == [kept.name]


def test_a_link_to_a_lost_disk_is_not_replaced(tmp_path):
    (place := tmp_path / OWNER / "0").mkdir(parents=True)
    (place / "image").symlink_to("/nowhere/image")
    with pytest.raises(exceptions.VolumeError, match=r"^Mount /d: mount: "):
        LocalDriver(tmp_path).prepare(OWNER, "demo", 0, Mount(Kind.LOCAL, "/d", size_mib=1))
    assert (place / "image").is_symlink()


def test_a_missing_mkfs_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(exceptions.VolumeError, match=r"^Mount /d: the host has no program mkfs.ext4"):
        LocalDriver(tmp_path / "local").prepare(OWNER, "demo", 0, Mount(Kind.LOCAL, "/d", size_mib=1))


def test_nothing_is_removed_while_mounts_are_unknown(tmp_path, monkeypatch):
    (place := tmp_path / OWNER / "0").mkdir(parents=True)
    (place / "image").write_bytes(b"theirs")
    monkeypatch.setattr(places, "ROOT", tmp_path / "none")
    with pytest.raises(exceptions.VolumeError, match="No such file"):
        LocalDriver(tmp_path).remove(OWNER, 0, Mount(Kind.LOCAL, "/d", size_mib=1))
    assert (place / "image").read_bytes() == b"theirs"


@pytest.mark.parametrize("driver", [FileDriver, LocalDriver])
@pytest.mark.parametrize("where", ["0/fs", "0/backup", "0/a b/c", "0/a\r\u2028b", os.fsdecode(b"0/\xe4")], ids=ascii)
def test_nothing_is_removed_from_a_disk_that_is_mounted_there(tmp_path, monkeypatch, driver, where):
    """An operator may have mounted a disk there, or the file system twice."""
    (folder := tmp_path / OWNER / where).mkdir(parents=True)
    (folder / "theirs").write_bytes(b"theirs")
    (listed := tmp_path / "proc/self/mountinfo").parent.mkdir(parents=True)
    spelt = os.fsencode(folder).replace(b" ", b"\\040")
    listed.write_bytes(b"36 35 98:0 / %s rw master:1 - ext4 /dev/b rw\n" % spelt)
    monkeypatch.setattr(places, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")  # no umount
    with pytest.raises(exceptions.VolumeError, match=r"^Mount /d: ") as caught:
        driver(tmp_path).remove(OWNER, 0, Mount(Kind.LOCAL, "/d", size_mib=1))
    assert str(caught.value).encode(), "it can be stored"
    assert (folder / "theirs").read_bytes() == b"theirs"


@pytest.mark.parametrize("driver", [FileDriver, LocalDriver])
@pytest.mark.parametrize("line", ["36 35 98:0 /", "36 35 98:0 / /d rw - ext4", "nonsense"])
def test_nothing_is_removed_while_a_mount_is_not_understood(tmp_path, monkeypatch, driver, line):
    (place := tmp_path / OWNER / "0").mkdir(parents=True)
    (place / "theirs").write_bytes(b"theirs")
    (listed := tmp_path / "proc/self/mountinfo").parent.mkdir(parents=True)
    listed.write_text(f"25 1 8:1 / / rw - ext4 /dev/root rw\n{line}\n")
    monkeypatch.setattr(places, "ROOT", tmp_path)
    with pytest.raises(exceptions.VolumeError, match="a line that is not understood"):
        driver(tmp_path).remove(OWNER, 0, Mount(Kind.LOCAL, "/d", size_mib=1))
    assert (place / "theirs").read_bytes() == b"theirs"


@pytest.mark.parametrize("driver", [FileDriver, LocalDriver])
def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path, driver):
    (theirs := tmp_path / "theirs").mkdir()
    (theirs / "file").write_bytes(b"theirs")
    (place := tmp_path / OWNER / "0").parent.mkdir()
    place.symlink_to(theirs)
    told = r"Mount /d: \[Errno 40\] \.\.\. is a symbolic link\. Remove it if nobody needs it there"
    with pytest.raises(exceptions.VolumeError, match=told):
        driver(tmp_path).remove(OWNER, 0, Mount(Kind.LOCAL, "/d", size_mib=1))
    assert (theirs / "file").read_bytes() == b"theirs"


def test_what_a_command_says_is_told_without_the_place(tmp_path, monkeypatch):
    """A tool of this test's own: every mkfs.ext4 has other words."""
    tool = tmp_path / "mkfs.ext4"
    tool.write_text('#!/bin/sh\nfor last; do :; done; echo "$last: no room" >&2\nexit 1\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(exceptions.VolumeError) as caught:
        LocalDriver(tmp_path / "local").prepare(OWNER, "demo", 0, Mount(Kind.LOCAL, "/d", size_mib=1))
    assert str(caught.value) == "Mount /d: mkfs.ext4: .../image.new: no room"


@pytest.mark.parametrize("work", ["prepare", "restore"])
def test_a_disk_that_fails_is_a_failure_of_the_mount(tmp_path, work):
    """Or what cannot be restored would keep the agent from starting."""
    driver, mount = LocalDriver(tmp_path), Mount(Kind.LOCAL, "/d", size_mib=1)
    nowhere = "x" * 300  # no disk has a folder of this name
    with pytest.raises(exceptions.VolumeError, match="File name too long"):
        driver.restore(nowhere, 0, mount) if work == "restore" else driver.prepare(nowhere, "demo", 0, mount)
