# SPDX-License-Identifier: Apache-2.0

import argparse

import pytest

from zun.osc import placement


def parse(*argv: str) -> dict[str, object]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    placement.add_options(parser)
    return placement.fields(parser.parse_args(argv))


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        pytest.param((), {}, id="nothing-asked-nothing-sent"),
        pytest.param(("--cpu-policy", "dedicated"), {"cpu_policy": "dedicated"}, id="policy"),
        pytest.param(("--cpu-thread-policy", "isolate"), {"cpu_thread_policy": "isolate"}, id="thread-policy"),
        pytest.param(("--cpu-isolation", "l3"), {"cpu_isolation": "l3"}, id="isolation"),
        pytest.param(("--numa-nodes", "2"), {"numa_nodes": 2}, id="nodes"),
        pytest.param(("--numa-affinity", "prefer"), {"numa_affinity": "prefer"}, id="affinity"),
        pytest.param(("--numa-cpus", "1,3,4"), {"numa_cpus": [1, 3, 4]}, id="unequal-cpus-keep-their-order"),
        pytest.param(("--numa-cpus", "4"), {"numa_cpus": [4]}, id="one-node"),
        pytest.param(("--numa-mem", "512, 1024"), {"numa_mem": [512, 1024]}, id="blank-after-comma"),
        pytest.param(("--numa-mempolicy", "preferred"), {"numa_mempolicy": "preferred"}, id="mempolicy"),
        pytest.param(("--mem-page-size", "large"), {"mem_page_size": "large"}, id="page-size-word"),
        pytest.param(("--mem-page-size", "2048"), {"mem_page_size": 2048}, id="page-size-kib"),
        pytest.param(
            ("--required-trait", "CUSTOM_A", "--required-trait", "CUSTOM_B", "--forbidden-trait", "CUSTOM_C"),
            {"required_traits": ["CUSTOM_A", "CUSTOM_B"], "forbidden_traits": ["CUSTOM_C"]},
            id="traits",
        ),
        pytest.param(
            ("--any-trait", "CUSTOM_A, CUSTOM_B", "--any-trait", "CUSTOM_C", "--member-of", "south,north"),
            {"any_traits": [["CUSTOM_A", "CUSTOM_B"], ["CUSTOM_C"]], "member_of": [["south", "north"]]},
            id="one-of-each-list",
        ),
        pytest.param(
            ("--cpu-policy", "shared", "--numa-nodes", "1"),
            {"cpu_policy": "shared", "numa_nodes": 1},
            id="several",
        ),
    ],
)
def test_fields(argv, expected):
    assert parse(*argv) == expected


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--cpu-policy", "both"),
        ("--cpu-thread-policy", "share"),
        ("--cpu-isolation", "socket"),
        ("--numa-nodes", "0"),
        ("--numa-nodes", "-1"),
        ("--numa-nodes", "²"),
        ("--numa-affinity", "strict"),
        ("--numa-cpus", ""),
        ("--numa-cpus", "1,,2"),
        ("--numa-cpus", "1,0"),
        ("--numa-mem", "1.5"),
        ("--numa-mempolicy", "bind"),
        ("--mem-page-size", "2M"),
        ("--mem-page-size", "0"),
        ("--any-trait", "CUSTOM_A,,CUSTOM_B"),
        ("--member-of", ""),
    ],
)
def test_bad_values_are_refused_before_a_request(option, value):
    with pytest.raises(argparse.ArgumentError):
        parse(f"{option}={value}")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [("--numa-cpus", "0-1", "for each cell, for example 2,2"), ("--mem-page-size", "2M", "for example 2048")],
)
def test_a_refusal_shows_how_it_is_written(option, value, said):
    with pytest.raises(argparse.ArgumentError, match=said):
        parse(f"{option}={value}")
