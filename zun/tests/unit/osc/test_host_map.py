# SPDX-License-Identifier: Apache-2.0

import re
from typing import Any

import pytest

from zun.osc import host_map
from zun.osc.host_map import HostMap

WEB = "6f0c6a0e-0000-4000-8000-000000000001"
DB = "6f0c6a0e-0000-4000-8000-000000000002"
LOG = "6f0c6a0e-0000-4000-8000-000000000003"


def cell(id: int, cpus: str, cores: str, **more: Any) -> dict[str, Any]:
    """One entry of "cells"; ``cores`` are blank separated."""
    return {"id": id, "cpus": cpus, "cores": cores.split(), "memory_mib": 2048, **more}


def claim(container: str, cpus: str, policy: str = "dedicated", **more: Any) -> dict[str, Any]:
    return {
        "container": container,
        "name": None,
        "cpu_policy": policy,
        "cpuset_cpus": cpus,
        "withheld": "",
        "cpuset_mems": "0",
        "memory_mib": {"0": 64},
        **more,
    }


def host(*cells: dict[str, Any], **more: Any) -> HostMap:
    return HostMap.from_dict({"host": "h1", "cells": list(cells), **more})


# Two nodes of two cores with two threads each, one container of each kind.
BUSY = {
    "host": "h1",
    "uuid": "a" * 32,
    "generation": 7,
    "cells": [
        cell(
            1,
            "2-3,6-7",
            "2,6 3,7",
            l3=["2-3,6-7"],
            pages={"2048": 8, "1048576": 0},
            distances={"0": 20, "1": 10},
        ),
        cell(
            0,
            "0-1,4-5",
            "0,4 1,5",
            l3=["0-1,4-5"],
            memory_used_mib=128,
            memory_reserved_mib=512,
            distances={"0": 10, "1": 20},
        ),
    ],
    "offline": "",
    "reserved": "0",
    "isolated": "",
    "shared": "3-4,6-7",
    "claims": [
        claim(DB, "2", cpuset_mems="1", memory_mib={"1": 32}),
        claim(WEB, "1", name="web", withheld="5"),
        claim(LOG, "3-4,6-7", "shared", name="log", cpuset_mems="0-1"),
    ],
}


def test_table():
    rows = host_map.table(HostMap.from_dict(BUSY))
    held_by = f"{DB} 2; log (shared)"

    assert rows == [
        (0, "0-1,4-5", "0,4 1,5", "0-1,4-5", 2048, 128, 1408, "", "4", "0:10 1:20", "web 1,5; log (shared)"),
        (1, "2-3,6-7", "2,6 3,7", "2-3,6-7", 2048, 0, 2048, "8 x 2048 KiB", "3,6-7", "0:20 1:10", held_by),
    ]
    assert {len(row) for row in rows} == {len(host_map.COLUMNS)}


@pytest.mark.parametrize("nobody", [None, ""])  # of 1.48, and of versions before
def test_claims_of_others_are_told_without_a_name(nobody):
    claims = [claim(nobody, cpu, name="") for cpu in ("1", "0")]
    shown = host(cell(0, "0-1", "0 1"), claims=claims)
    assert host_map.table(shown)[0][-1] == "another project 0; another project 1"
    lines = host_map.picture(shown, border=host_map.ASCII, width=80)
    assert [line.split("  ")[1] for line in lines if line.startswith(("A ", "B "))] == ["another project"] * 2


def test_containers_of_a_capsule_stand_below_its_claim():
    named = {"pod-web": "0", "pod-log": "1"}
    parts = [{"container": name, "name": name, "cpuset_cpus": cpu} for name, cpu in named.items()]
    shown = host(cell(0, "0-1", "0 1"), claims=[claim("c1", "0-1", name="pod", members=parts)])
    lines = list(host_map.picture(shown, border=host_map.ASCII, width=80))
    at = next(number for number, line in enumerate(lines) if line.startswith("A  pod (c1)"))
    assert lines[at + 1 : at + 3] == ["     pod-web  CPUs 0", "     pod-log  CPUs 1"]


def test_picture_of_a_busy_host():
    assert "\n".join(host_map.picture(HostMap.from_dict(BUSY))) == "\n".join(
        (
            "h1: 2 cells, generation 7",
            "",
            "cell 0  CPUs 0-1,4-5  memory 2048 MiB: 128 used, 512 reserved, 1408 free",
            "  distance 0:10 1:20",
            "  L3 0-1,4-5",
            "  ┌─────┬─────┐",
            "  │ 0 # │ 1 A │",
            "  │ 4 ~ │ 5 - │",
            "  └─────┴─────┘",
            "",
            "cell 1  CPUs 2-3,6-7  memory 2048 MiB: 0 used, 2048 free",
            "  huge pages 8 x 2048 KiB",
            "  distance 0:20 1:10",
            "  L3 2-3,6-7",
            "  ┌─────┬─────┐",
            "  │ 2 B │ 3 ~ │",
            "  │ 6 ~ │ 7 ~ │",
            "  └─────┴─────┘",
            "",
            f"A  web ({WEB})  CPUs 1 (kept idle: 5)  cell 0  64 MiB",
            f"B  {DB}  CPUs 2  cell 1  32 MiB",
            "~  shared pool, in use: CPUs 3-4,6-7: log",
            "-  kept idle for a container",
            "#  reserved for the host",
        )
    )


@pytest.mark.parametrize(
    ("document", "boxes"),
    [
        pytest.param({}, ["+-----+-----+", "| 0 . | 1 . |", "+-----+-----+"], id="all-free"),
        pytest.param(
            {"shared": "0-1"},
            ["+-----+-----+", "| 0 . | 1 . |", "+-----+-----+"],
            id="a-pool-nobody-uses-is-free",
        ),
        pytest.param(
            {"shared": "1", "claims": [claim(WEB, "0-1", "shared")]},
            ["+-----+-----+", "| 0 . | 1 ~ |", "+-----+-----+"],
            id="shared-containers-are-in-the-pool-only",
        ),
        pytest.param(
            {"reserved": "0-1", "offline": "1"},
            ["+-----+-----+", "| 0 # | 1 x |", "+-----+-----+"],
            id="offline-wins-over-reserved",
        ),
        pytest.param(
            {"claims": [claim(WEB, "1"), claim(DB, "0")]},
            ["+-----+-----+", "| 0 A | 1 B |", "+-----+-----+"],
            id="letters-follow-the-cpus",
        ),
    ],
)
def test_marks(document, boxes):
    lines = host_map.picture(host(cell(0, "0-1", "0 1"), **document), border=host_map.ASCII)

    assert [line.strip() for line in lines if line.strip()[:1] in ("|", "+")] == boxes


def test_cores_wrap_at_the_width_and_ids_line_up():
    cores = " ".join(str(cpu) for cpu in range(8, 13))

    lines = host_map.picture(host(cell(0, "8-12", cores)), width=24, border=host_map.ASCII)

    assert lines[3:9] == [
        "  +------+------+------+",
        "  |  8 . |  9 . | 10 . |",
        "  +------+------+------+",
        "  +------+------+",
        "  | 11 . | 12 . |",
        "  +------+------+",
    ]


def test_cores_outside_every_l3_are_drawn_too():
    lines = host_map.picture(host(cell(0, "0-1", "0 1", l3=["0"])), border=host_map.ASCII)

    assert lines[3:10] == [
        "  L3 0",
        "  +-----+",
        "  | 0 . |",
        "  +-----+",
        "  +-----+",
        "  | 1 . |",
        "  +-----+",
    ]


def test_memory_only_cell_has_no_boxes():
    lines = host_map.picture(host(cell(0, "0", "0"), cell(8, "", "")))

    assert "cell 8  CPUs none  memory 2048 MiB: 0 used, 2048 free" in lines
    assert sum(line.startswith("  ┌") for line in lines) == 1


def test_offline_cpus_of_no_cell_are_named():
    lines = host_map.picture(host(cell(0, "0", "0"), offline="1,3"))

    assert lines[-1] == "x  offline, of no cell: 1,3"


def test_more_containers_than_letters():
    claims = [claim(f"c{cpu:02}", str(cpu)) for cpu in range(28)]
    cores = " ".join(map(str, range(28)))

    lines = host_map.picture(host(cell(0, "0-27", cores), claims=claims), border=host_map.ASCII, width=400)

    assert lines[4].endswith("| 25 Z  | 26 AA | 27 AB |")
    assert lines[-3:] == [
        "Z   c25  CPUs 25  cell 0  64 MiB",
        "AA  c26  CPUs 26  cell 0  64 MiB",
        "AB  c27  CPUs 27  cell 0  64 MiB",
    ]


def test_colour_changes_no_character():
    drawn = HostMap.from_dict(BUSY)

    coloured = host_map.picture(drawn, colour=True)

    assert "\x1b[1;32mA\x1b[0m" in coloured[6]
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured] == host_map.picture(drawn)
    assert "\x1b" not in "".join(host_map.picture(drawn))


def test_memory_taken_twice_over_is_not_shown_as_negative():
    assert host_map.table(host(cell(0, "0", "0", memory_used_mib=4096)))[0][6] == 0


def device(address: str, cell: int | None, **more: Any) -> dict[str, Any]:
    return {
        "address": address, "cell": cell, "vendor_id": "10de", "product_id": "20b0", "class_id": "030200",
        "resource_class": None, "type": "type-PCI", "switch": None, "physical_network": None, "interfaces": [],
        "nodes": [], **more,
    }  # fmt: skip


def test_linked_devices_stand_in_a_table():
    """Nine devices are linked to the tenth, and a device without a link is left out."""
    addresses = [f"0000:{number:02}:00.0" for number in range(10)]
    entries = [device(each, 0, links=[addresses[-1]]) for each in addresses[:-1]]
    entries += [device(addresses[-1], 0, links=addresses[:-1]), device("0000:99:00.0", 0, links=[])]
    lines = host_map.picture(host(cell(0, "0", "0"), devices=entries))
    place = lines.index("GPU links: x joins two devices")
    assert lines[place - 1 : place + 13] == [
        "",
        "GPU links: x joins two devices",
        "                     1  2  3  4  5  6  7  8  9 10",
        "   1  0000:00:00.0   -  .  .  .  .  .  .  .  .  x",
        "   2  0000:01:00.0   .  -  .  .  .  .  .  .  .  x",
        "   3  0000:02:00.0   .  .  -  .  .  .  .  .  .  x",
        "   4  0000:03:00.0   .  .  .  -  .  .  .  .  .  x",
        "   5  0000:04:00.0   .  .  .  .  -  .  .  .  .  x",
        "   6  0000:05:00.0   .  .  .  .  .  -  .  .  .  x",
        "   7  0000:06:00.0   .  .  .  .  .  .  -  .  .  x",
        "   8  0000:07:00.0   .  .  .  .  .  .  .  -  .  x",
        "   9  0000:08:00.0   .  .  .  .  .  .  .  .  -  x",
        "  10  0000:09:00.0   x  x  x  x  x  x  x  x  x  -",
        "",
    ]


@pytest.mark.parametrize(("cell_id", "nearest", "words"), [
    pytest.param(1, [1], "", id="its-own-cell"),
    pytest.param(2, [1], ", nearest to CPUs of cell 1", id="a-cell-without-cpus"),
    pytest.param(2, [0, 1], ", nearest to CPUs of cells 0, 1", id="two-cells-alike"),
    pytest.param(None, [], "", id="unknown"),
])
def test_nearest_cells_of_a_device_are_told(cell_id, nearest, words):
    there = device("0000:81:00.0", cell_id, nearest_cells=nearest, memory_node=3)
    lines = host_map.picture(host(cell(0, "0", "0"), cell(1, "1", "1"), cell(2, "", ""), devices=[there]))
    assert f"  device 0000:81:00.0  10de:20b0, class 030200, PCI, memory node 3{words}" in lines


def test_device_table():
    """A server before 1.47 does not tell all."""
    gpu, link = "0000:81:00.0", "0000:82:00.0"
    told = device(gpu, 2, switch="0000:80:02.0", resource_class="CUSTOM_GPU", nearest_cells=[0, 1], memory_node=4,
                  links=[link, "0000:05:00.0"], shared=4, holders=3)  # fmt: skip
    entries = [told, device("0000:03:00.0", None, type="type-VF")]
    assert host_map.device_table(host(cell(0, "0", "0"), devices=entries)) == [
        (gpu, "PCI", "CUSTOM_GPU", "3 of 4", 2, "0 1", "0000:80:02.0", 4, "0000:05:00.0 0000:82:00.0"),
        ("0000:03:00.0", "VF", "", "", "", "", "", "", ""),
    ]
    assert len(host_map.DEVICE_COLUMNS) == 9


@pytest.mark.parametrize(("shared", "holders", "words"), [
    (1, 1, ""), (4, 0, ", 0 of 4 shares held"), (2, 3, ", 3 of 2 shares held"),
])
def test_held_shares_of_a_device_are_told(shared, holders, words):
    there = device("0000:81:00.0", 0, shared=shared, holders=holders)
    lines = host_map.picture(host(cell(0, "0", "0"), devices=[there]))
    assert f"  device 0000:81:00.0  10de:20b0, class 030200, PCI{words}" in lines


def test_devices_stand_below_their_cells():
    there = device("0000:81:00.0", 1, resource_class="CUSTOM_GPU", switch="0000:80:02.0", nodes=["/dev/nvidia0"])
    unknown = device("0000:05:10.1", None, type="type-VF", physical_network="physnet1", interfaces=["ens1v1"])
    lines = host_map.picture(host(cell(0, "0", "0"), cell(1, "1", "1"), devices=[unknown, there]))
    text = "  device 0000:81:00.0  10de:20b0, class 030200, CUSTOM_GPU, PCI, switch 0000:80:02.0, /dev/nvidia0"
    cells = [place for place, line in enumerate(lines) if line.startswith("cell ")]
    assert lines.index(text) > cells[1]
    place = lines.index("devices whose cell is unknown")
    assert lines[place + 1] == "  device 0000:05:10.1  10de:20b0, class 030200, VF, physnet1, ens1v1"
