# SPDX-License-Identifier: Apache-2.0
"""Accepted and refused ``mounts``, and the mounts made from them."""

import base64

import pytest

from zun.api.limits import FILES_BYTES
from zun.api.microversion import v1
from zun.api.mounts import mounts
from zun.api.settings import Range
from zun.common import exceptions
from zun.common.mounts import Kind, Mount, disk_gib, mounts_of, volume_names

FILE = base64.b64encode(b"key = value\n").decode()


def asked(*items, version=42, cinder=False):
    return mounts(items, version=v1(version), memory_mib=256, disk=Range(1, 160), cinder=cinder)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"source": "data", "destination": "/d"}, Mount(Kind.VOLUME, "/d", "data")),
        ({"type": "volume", "source": "data", "destination": "/a//b/./c/"}, Mount(Kind.VOLUME, "/a/b/c", "data")),
        ({"size": 2, "destination": "//d"}, Mount(Kind.LOCAL, "/d", size_mib=2048)),
        ({"size": "2", "source": "", "destination": "/d"}, Mount(Kind.LOCAL, "/d", size_mib=2048)),
        ({"size": "64M", "destination": "/d"}, Mount(Kind.LOCAL, "/d", size_mib=64)),
        ({"size": "3G", "destination": "/d"}, Mount(Kind.LOCAL, "/d", size_mib=3072)),
        ({"type": "tmpfs", "size": "64M", "destination": "/d"}, Mount(Kind.TMPFS, "/d", size_mib=64)),
        ({"type": "bind", "source": FILE, "destination": "/etc/x"}, Mount(Kind.BIND, "/etc/x", FILE)),
        ({"size": "1M", "destination": "/d"}, Mount(Kind.LOCAL, "/d", size_mib=1)),
        ({"size": 160, "destination": "/d"}, Mount(Kind.LOCAL, "/d", size_mib=160 * 1024)),
        ({"type": "tmpfs", "size": "256M", "destination": "/d"}, Mount(Kind.TMPFS, "/d", size_mib=256)),
        ({"source": "data", "destination": "/" + "d" * 254}, Mount(Kind.VOLUME, "/" + "d" * 254, "data")),
    ],
)
def test_mounts(item, expected):
    assert asked(item) == [expected]
    assert mounts_of({"mounts": [expected.to_dict()]}) == [expected]


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([{"source": "/etc", "destination": "/d"}], "Paths of a host cannot be mounted"),
        ([{"source": "../data", "destination": "/d"}], "not the name of a volume"),
        ([{"source": "data:ro", "destination": "/d"}], "not the name of a volume"),
        ([{"source": "c0ffee00-0000-4000-8000-000000000000", "destination": "/d"}], "no Cinder"),
        ([{"type": "bind", "source": "/etc/passwd.", "destination": "/d"}], "Paths of a host cannot be mounted"),
        ([{"type": "bind", "source": "", "size": 1, "destination": "/d"}], "content of its file"),
        ([{"type": "bind", "source": FILE, "size": 1, "destination": "/d"}], "no size"),
        ([{"type": "bind", "destination": "/d"}], "content of its file"),
        ([{"type": "bind", "source": f"!{FILE}", "destination": "/d"}], "this is not base64"),
        ([{"type": "disk", "size": 1, "destination": "/d"}], "not one of volume, bind, tmpfs, local"),
        ([{"source": "data", "size": 1, "destination": "/d"}], "leave one out"),
        ([{"source": "", "destination": "/d"}], "size 'None'"),
        ([{"size": 0, "destination": "/d"}], "not between"),
        ([{"size": 161, "destination": "/d"}], "not between"),
        ([{"size": True, "destination": "/d"}], "not a whole number"),
        ([{"size": "1.5", "destination": "/d"}], "not a whole number"),
        ([{"size": "-1", "destination": "/d"}], "not a whole number"),
        ([{"type": "tmpfs", "size": "257M", "destination": "/d"}], "not between 1 and 256"),
        ([{"type": "tmpfs", "source": "data", "destination": "/d"}], "no source"),
        ([{"size": 1, "destination": "d"}], "not an absolute path"),
        ([{"size": 1, "destination": "/a/../d"}], "not an absolute path"),
        ([{"size": 1, "destination": "/d\0"}], "not an absolute path"),
        ([{"size": 1, "destination": "/" + "d" * 255}], "not an absolute path"),
        ([{"size": 1, "destination": "/./"}], "root of the container"),
        ([{"size": 1, "destination": "/d"}, {"size": 1, "destination": "/d/"}], "given twice"),
        (
            [
                {"type": "bind", "source": base64.b64encode(bytes(size)).decode(), "destination": f"/{size}"}
                for size in (FILES_BYTES // 2, FILES_BYTES // 2 + 1)
            ],
            f"the files have {FILES_BYTES + 1} bytes together of {FILES_BYTES}",
        ),
    ],
)
def test_what_is_refused_says_why(items, says):
    with pytest.raises(exceptions.InvalidValue) as caught:
        asked(*items)
    assert "mounts: " in str(caught.value) and says in str(caught.value)


def test_what_older_versions_lack():
    with pytest.raises(exceptions.InvalidParamInVersion, match=r"tmpfs.*1\.42"):
        asked({"type": "tmpfs", "size": "1", "destination": "/d"}, version=41)
    with pytest.raises(exceptions.InvalidValue, match=r"not a whole number of GiB\.$"):
        asked({"size": "64M", "destination": "/d"}, version=41)


@pytest.mark.parametrize("size", [FILES_BYTES // 2, FILES_BYTES // 2 - 1])
def test_files_may_be_as_large_as_the_limit_together(size):
    contents = [base64.b64encode(bytes(each)).decode() for each in (size, FILES_BYTES - size)]
    made = asked(*({"type": "bind", "source": content, "destination": f"/{n}"} for n, content in enumerate(contents)))
    assert [each.source for each in made] == contents


def test_what_mounts_take():
    made = asked(
        {"size": "600M", "destination": "/a"},
        {"size": "600M", "destination": "/b"},
        {"type": "tmpfs", "size": "64M", "destination": "/c"},
        {"source": "two", "destination": "/d"},
        {"source": "one", "destination": "/e"},
        {"source": "two", "destination": "/f"},
    )
    assert disk_gib(made) == 2  # 1200 MiB
    assert volume_names(made) == ["one", "two"]
    assert (disk_gib([]), volume_names([])) == (0, [])


UUID = "c0ffee00-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"source": UUID}, Mount(Kind.CINDER, "/d", UUID)),
        ({"source": "a volume: mine", "type": "volume"}, Mount(Kind.CINDER, "/d", "a volume: mine")),
        ({"source": UUID, "read_only": True}, Mount(Kind.CINDER, "/d", UUID, read_only=True)),
        ({"source": "", "size": "3"}, Mount(Kind.CINDER, "/d", size_mib=3072, owned=True)),
        ({"size": "2048M"}, Mount(Kind.CINDER, "/d", size_mib=2048, owned=True)),
        ({"type": "local", "size": "64M"}, Mount(Kind.LOCAL, "/d", size_mib=64)),
        ({"type": "local", "source": "data"}, Mount(Kind.VOLUME, "/d", "data")),
        ({"type": "tmpfs", "size": "64M"}, Mount(Kind.TMPFS, "/d", size_mib=64)),
    ],
)
def test_mounts_with_cinder(item, expected):
    assert asked({**item, "destination": "/d"}, version=46, cinder=True) == [expected]
    assert mounts_of({"mounts": [expected.to_dict()]}) == [expected]


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ({"source": "/etc"}, "Paths of a host cannot be mounted"),
        ({"source": "v" * 256}, "not the id or the name"),
        ({"size": "1025M"}, "not a whole number of GiB"),
        ({"size": 1, "source": UUID}, "leave one out"),
        ({"size": 1, "read_only": True}, "new read-only volume"),
        ({"type": "tmpfs", "size": "1M", "read_only": True}, "read-only tmpfs"),
    ],
)
def test_what_is_refused_with_cinder(item, says):
    with pytest.raises(exceptions.InvalidValue, match=says):
        asked({**item, "destination": "/d"}, version=46, cinder=True)


@pytest.mark.parametrize("item", [{"type": "local", "size": 1}, {"source": "data", "read_only": False}])
def test_new_members_need_a_newer_version(item):
    with pytest.raises(exceptions.InvalidParamInVersion):
        asked({**item, "destination": "/d"}, version=45)
