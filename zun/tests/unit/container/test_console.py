# SPDX-License-Identifier: Apache-2.0
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.container.docker.console import payload, stats_summary

MIB = 1 << 20


@given(
    frames=st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=12),
    cuts=st.lists(st.integers(min_value=1, max_value=30), max_size=40),
)
def test_payload_does_not_depend_on_chunks(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(struct.pack(">BxxxL", number, len(data)) + data for number, data in frames)
    chunks, rest = [], stream
    for cut in cuts:
        chunks.append(rest[:cut])
        rest = rest[cut:]
    chunks.append(rest)
    assert b"".join(payload(iter(chunks))) == b"".join(data for _, data in frames)


def test_payload_gives_what_is_there_of_a_broken_frame() -> None:
    assert b"".join(payload(iter([struct.pack(">BxxxL", 1, 10) + b"half"]))) == b"half"


def sample(details: dict[str, int], **members: Any) -> dict[str, Any]:
    return {
        "cpu_stats": {"cpu_usage": {"total_usage": 25}, "system_cpu_usage": 1000},
        "memory_stats": {"usage": 12 * MIB, "limit": 40 * MIB, "stats": details},
        "blkio_stats": {
            "io_service_bytes_recursive": [
                {"op": "Read", "value": 5},
                {"op": "read", "value": 6},
                {"op": "Write", "value": 7},
                {"op": "Total", "value": 99},
            ]
        },
        "networks": {"eth0": {"rx_bytes": 1, "tx_bytes": 2}, "eth1": {"rx_bytes": 10, "tx_bytes": 20}},
        **members,
    }


@pytest.mark.parametrize(
    "details", [{"total_inactive_file": 2 * MIB, "inactive_file": MIB}, {"inactive_file": 2 * MIB}], ids=["v1", "v2"]
)
def test_stats_summary(details: dict[str, int]) -> None:
    assert stats_summary("c1", sample(details)) == {
        "CONTAINER": "c1",
        "CPU %": 2.5,
        "MEM USAGE(MiB)": 10.0,
        "MEM LIMIT(MiB)": 40.0,
        "MEM %": 25.0,
        "BLOCK I/O(B)": "11/7",
        "NET I/O(B)": "11/22",
    }


def test_stats_are_short() -> None:
    memory = {"usage": 12 * MIB + 1, "limit": 36 * MIB, "stats": {}}
    found = stats_summary("c1", sample({}, memory_stats=memory))
    assert (found["MEM USAGE(MiB)"], found["MEM %"]) == (12.000001, 33.333336)


def test_stats_of_a_process_that_has_just_started() -> None:
    """The kernel counts memory in batches, and engines leave a member out that is 0."""
    found = stats_summary("c1", sample({}, memory_stats={"limit": 36 * MIB}))
    assert (found["MEM USAGE(MiB)"], found["MEM LIMIT(MiB)"], found["MEM %"]) == (0.0, 36.0, 0.0)


def test_stats_of_a_container_without_network_or_disk() -> None:
    found = stats_summary("c1", sample({}, networks=None, blkio_stats={"io_service_bytes_recursive": None}))
    assert (found["BLOCK I/O(B)"], found["NET I/O(B)"]) == ("0/0", "0/0")
