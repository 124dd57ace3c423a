# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common.disk_pools import DiskPool, checked_size, pool_of


def aggregate(name, hosts, **metadata):
    return {"uuid": f"{name}-uuid", "name": name, "hosts": hosts, "metadata": metadata}


CEPH = aggregate("ceph", ["h1", "h2"], disk_pool_gb="128")
FAST = aggregate("fast", ["h1", "h3"], disk="ssd")
TYPED = aggregate("typed", ["h4"], disk_pool_gb="many")


@pytest.mark.parametrize(
    ("hostname", "expected"),
    [
        pytest.param("h1", DiskPool("ceph-uuid", "ceph", 128), id="aggregate-with-a-size"),
        pytest.param("h3", None, id="aggregate-without-size"),
        pytest.param("h9", None, id="in-no-aggregate"),
        pytest.param("h", None, id="whole-names-only"),
        pytest.param("h4", DiskPool("typed-uuid", "typed", 0), id="unreadable-size-gives-nothing"),
    ],
)
def test_pool_of(hostname, expected):
    assert pool_of(hostname, [FAST, CEPH, TYPED]) == expected


@pytest.mark.parametrize("value", ["", "0", "-1", "1.5", "2147483648", "9" * 5000, "x", "١", None])
def test_sizes_are_whole_positive_numbers(value):
    with pytest.raises(ValueError, match="disk_pool_gb must be a whole number of GiB from 1 to 2147483647, got"):
        checked_size(value)
    assert checked_size("2147483647") == 2147483647


@pytest.mark.parametrize(
    ("used", "wanted", "reason"),
    [
        (0, 128, None),
        (120, 8, None),
        (120, 9, "disk pool ceph has 8 GiB of disk left of the 9 that are wanted"),
        (200, 1, "disk pool ceph has 0 GiB of disk left of the 1 that are wanted"),
        (200, 0, None),
    ],
)
def test_lacking(used, wanted, reason):
    assert DiskPool("u", "ceph", 128).lacking(used, wanted) == reason
