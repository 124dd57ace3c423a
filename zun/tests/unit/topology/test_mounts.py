# SPDX-License-Identifier: Apache-2.0
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.topology.mounts import Mounted, lines_of, mountinfo, mounts_in, mounts_in_table, parsed, unescaped

OPTIONS = frozenset(("rw", "relatime", "errors=continue"))
ROOT = Mounted("/", "ext4", "/dev/root", OPTIONS, "rw,errors=continue", "/", "8:1")
LINE = "25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw,errors=continue"
PATHS = st.binary(min_size=1).filter(lambda path: b"\0" not in path)


def escaped(path):
    """A field as the kernel writes it: seq_path escapes these bytes and no other."""
    return b"".join(b"\\%03o" % byte if byte in b" \t\n\\#" else bytes((byte,)) for byte in path)


@pytest.mark.parametrize(("field", "path"), [
    (r"/sys/fs/cgroup", "/sys/fs/cgroup"),
    (r"/a\040b\011c\012d\043e\134f", "/a b\tc\nd#e\\f"),
    (r"/a\134040b", r"/a\040b"),
    (r"/a\303\244", "/aä"),
    (r"/a\344", os.fsdecode(b"/a\xe4")),
    (r"/a\777\9", r"/a\777\9"),
])
def test_fields_of_the_mounts(field, path):
    assert unescaped(field) == path


@pytest.mark.parametrize(("line", "expected"), [
    pytest.param(LINE, ROOT, id="usual"),
    pytest.param("29 23 0:26 /a\\040b /c rw - tmpfs  rw",
                 Mounted("/c", "tmpfs", "", frozenset(("rw",)), "rw", "/a b", "0:26"), id="no-source"),
    pytest.param("29 23 0:26 / /a\u2028b\x0bc rw a:1 b:2 - x y z",
                 Mounted("/a\u2028b\x0bc", "x", "y", frozenset(("rw", "z")), "z", "/", "0:26"), id="other-space"),
    pytest.param("29 23 0:26 / /a", None, id="cut"),
    pytest.param("29 23 0:26 / /a rw - ext4", None, id="cut-later"),
])  # fmt: skip
def test_a_line_is_a_mount(line, expected):
    assert parsed(line) == expected
    assert [*mounts_in(f"{line}\n{LINE}\n")] == [each for each in (expected, ROOT) if each]


def test_mounts_of_other_types_are_left_out():
    text = "\n".join((LINE, LINE.replace("ext4", "cgroup2").replace("/ /", "/ /sys/fs/cgroup"), LINE))
    assert [each.place for each in mounts_in(text, "cgroup")] == ["/sys/fs/cgroup"]


def test_the_table_tells_less():
    assert [*mounts_in_table("/dev/a\\040b /c ext4 rw,sync 0 0\ncut /d\n")] == [
        Mounted("/c", "ext4", "/dev/a b", frozenset(("rw", "sync")))
    ]


@given(PATHS, PATHS, PATHS)
def test_every_path_is_read_as_python_names_it(tmp_path_factory, place, root, source):
    """Paths of any bytes are read, also with carriage returns and with bytes that are not UTF-8."""
    machine = tmp_path_factory.mktemp("machine")
    (listed := machine / "proc/7/mountinfo").parent.mkdir(parents=True)
    words = tuple(map(escaped, (root, place, source)))
    listed.write_bytes(b"36 35 98:0 %s %s rw master:1 - ext4 %s rw\n" % words + LINE.encode() + b"\n")
    text = mountinfo(machine, 7)
    assert len([*lines_of(text)]) == 2
    place, root, source = map(os.fsdecode, (place, root, source))
    assert [*mounts_in(text)] == [Mounted(place, "ext4", source, frozenset(("rw",)), "rw", root, "98:0"), ROOT]
