# SPDX-License-Identifier: Apache-2.0
import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.compute.quiet.kernel_files import Change, KernelFiles, Kind, Setting, own_value
from zun.tests.unit.compute.quiet.kernels import write

NAMES = ("a", "b", "c")


def always(value):
    return lambda before: value


def setting(name, value, kind=Kind.LIST):
    return Setting(name, kind, always(value))


@pytest.fixture
def files(tmp_path):
    write(tmp_path, "proc/sys/kernel/random/boot_id", "one")
    for name in NAMES:
        write(tmp_path, name, "0-3")
    return KernelFiles(tmp_path, tmp_path / "kept" / "record")


@pytest.mark.parametrize(
    ("kind", "text", "normal", "written"),
    [
        pytest.param(Kind.LIST, "0,1,2", "0-2", "0-2", id="list"),
        pytest.param(Kind.MAP, "1,00000003", "0-1,32", "00000001,00000003", id="map-of-two-words"),
        pytest.param(Kind.MAP, "f", "0-3", "0000000f", id="map-of-one-word"),
        pytest.param(Kind.TEXT, "schedutil", "schedutil", "schedutil", id="text"),
    ],
)
def test_values_of_each_kind_have_one_normal_form(kind, text, normal, written):
    assert kind.normal(text) == normal
    assert kind.written(normal) == written
    assert kind.normal(written) == normal


@pytest.mark.parametrize(
    ("present", "known", "own"),
    [
        pytest.param("0-3", None, "0-3", id="never-changed"),
        pytest.param("0-2", Change(Kind.LIST, "0-3", ("0-2",)), "0-3", id="changed-from-here"),
        pytest.param("0-1", Change(Kind.LIST, "0-3", ("0-2", "0-1")), "0-3", id="killed-between-two-changes"),
        pytest.param("1", Change(Kind.LIST, "0-3", ("0-2",)), "1", id="changed-by-others-since"),
    ],
)
def test_own_value(present, known, own):
    assert own_value(present, known) == own


def test_value_comes_back_when_nobody_asks(files, tmp_path):
    assert files.settle([setting("a", "0-1"), setting("b", "2")]) == {}
    assert [(tmp_path / name).read_text().strip() for name in NAMES] == ["0-1", "2", "0-3"]
    assert files.settle([setting("b", "2")]) == {}
    assert [(tmp_path / name).read_text().strip() for name in NAMES] == ["0-3", "2", "0-3"]
    assert files.settle([]) == {} and files.changed == {}
    assert [(tmp_path / name).read_text().strip() for name in NAMES] == ["0-3", "0-3", "0-3"]


def test_values_of_before_another_boot_are_forgotten(files, tmp_path):
    files.settle([setting("a", "0-1")])
    write(tmp_path, "proc/sys/kernel/random/boot_id", "two")
    again = KernelFiles(tmp_path, tmp_path / "kept" / "record")
    assert again.changed == {}
    again.settle([])
    assert (tmp_path / "a").read_text().strip() == "0-1"


def test_value_that_others_write_meanwhile_is_the_hosts_own(files, tmp_path):
    files.settle([setting("a", "0-1")])
    write(tmp_path, "a", "1-2")
    files.settle([setting("a", "0-1")])
    assert (tmp_path / "a").read_text().strip() == "0-1"
    files.settle([])
    assert (tmp_path / "a").read_text().strip() == "1-2"


def test_file_that_does_not_take_the_value_is_told(files, tmp_path):
    (tmp_path / "b").unlink()
    (tmp_path / "b").symlink_to("/dev/full")  # reads as no regular file
    failed = files.settle([setting("a", "0-1"), setting("b", "1"), Setting("c", Kind.LIST, always("1"), "a")])
    assert failed == {"c": "it has 0-1 after 1 was written"}


def test_record_that_cannot_be_written_changes_nothing(files, tmp_path):
    (tmp_path / "kept").write_text("")
    with pytest.raises(OSError):
        files.settle([setting("a", "0-1")])
    assert (tmp_path / "a").read_text().strip() == "0-3"


def test_unreadable_record_is_told_and_stops_nothing(files, tmp_path, caplog):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "record").write_text('{"boot": "one", "files": {"a": {"kind": "list"}}}')
    assert files.settle([setting("a", "0-1")]) == {}
    assert "cannot be read" in caplog.text


class Killed(BaseException):
    pass


class DyingFiles(KernelFiles):
    """Dies before or after the n-th effect on disk."""

    def __init__(self, root, record, effects):
        super().__init__(root, record)
        self.left = effects

    def _effect(self, work, *args):
        if self.left <= 0:
            raise Killed
        self.left -= 1
        return work(*args)

    def _write(self, setting, value):
        return self._effect(super()._write, setting, value)

    def _keep(self, changes):
        return self._effect(super()._keep, changes)


WISHES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["0", "0-1", "2-3", "0-3"]))


@given(st.lists(st.tuples(WISHES, st.integers(0, 9)), min_size=1, max_size=6))
def test_killed_anywhere_the_own_values_come_back(tmp_path_factory, rounds):
    """Each round wants other values and dies after some effects; the last one wants nothing."""
    root = tmp_path_factory.mktemp("kernel")
    write(root, "proc/sys/kernel/random/boot_id", "one")
    own = dict(zip(NAMES, ("0-3", "0-1", "1"), strict=True))
    for name, value in own.items():
        write(root, name, value)
    for wishes, effects in rounds:
        files = DyingFiles(root, root / "record", effects)
        try:
            files.settle([setting(name, value) for name, value in wishes.items()])
        except Killed:
            continue
        for name, value in wishes.items():
            assert (root / name).read_text().strip() == value
    KernelFiles(root, root / "record").settle([])
    assert {name: (root / name).read_text().strip() for name in NAMES} == own


def test_each_kill_point_of_one_change_is_survived(tmp_path):
    """Where the property's rounds may miss one: a change of two files to other values, killed at each effect."""
    for number, effects in enumerate(itertools.islice(itertools.count(), 6)):
        root = tmp_path / str(number)
        write(root, "proc/sys/kernel/random/boot_id", "one")
        write(root, "a", "0-3")
        write(root, "b", "0-3")
        KernelFiles(root, root / "record").settle([setting("a", "0-1"), setting("b", "0-1")])
        with contextlib.suppress(Killed):
            DyingFiles(root, root / "record", effects).settle([setting("a", "2"), setting("b", "2")])
        KernelFiles(root, root / "record").settle([])
        assert [(root / name).read_text().strip() for name in "ab"] == ["0-3", "0-3"], effects
