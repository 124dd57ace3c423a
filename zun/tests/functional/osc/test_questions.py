# SPDX-License-Identifier: Apache-2.0
"""``appcontainer explain`` and ``placement ...`` against a real HTTP server."""

import io
import json
import types

import pytest
from osc_lib import exceptions

from zun.osc import explanation
from zun.osc.questions import ExplainContainer, PlacementCapacity, PlacementDryRun
from zun.scheduler.explain import HostCode
from zun.tests.functional.osc.recorder import Asked, client, serving

REFUSAL = {
    "reason": "No valid host was found. Of 4 hosts, CpuSetFilter rejected 3, ComputeFilter rejected 1.",
    "wanted": {"cpu": 6, "memory": 512},
    "hosts": 4,
    "filters": {"CpuSetFilter": 3, "ComputeFilter": 1},
    "codes": {"cpus": 3, "service": 1},
    "changes": [
        {"dimension": "cpus", "change": {"cpu": 4, "numa_cpus": [3, 1]}},
        {"dimension": "nodes", "change": {"numa_nodes": 2, "numa_cpus": None, "numa_mem": None}},
        {"dimension": "pages", "change": {"mem_page_size": None}},
    ],
}
DETAILS = {
    "details": [
        {
            "host": "h1",
            "filter": "CpuSetFilter",
            "code": "cpus",
            "reason": "no cell has 6 CPUs free: best is cell 0 with 4",
            "wanted": [{"cpus": 6, "memory_mib": 512, "page_kib": 2048}],
            "free": [
                {"node": 0, "cpus": 4, "whole_cores": 1, "shared": 64.0, "memory_mib": 100, "pages": {"2048": 8}},
            ],
            "disk_free": 10.0,
            "changes": [{"dimension": "cpus", "change": {"cpu": 4}}],
        },
        {
            "host": "h2",
            "filter": "ComputeFilter",
            "code": "service",
            "reason": "its compute service is disabled",
            "found": {"disabled_reason": "rack move"},
        },
        {
            "host": "h3",
            "filter": "LabelFilter",
            "code": "label",
            "reason": "its label rack is not 'r1'",
            "found": {"labels": {"rack": "r2", "row": None}, "runtimes": ["crun", "runc"], "projects": []},
        },
    ],
    "details_left_out": 2,
}
EXPLAINED = {"container": "c-1", "created_at": "2026-03-04 12:00:00", **REFUSAL}
CELL = {"cpus": 2, "withheld": 1, "memory_mib": 512, "pages": {"2048": 256}}
MINE = {"fits": True, "refusal": None, "placements": [{"cells": [CELL]}]}
ADMINS = {
    "fits": True,
    "refusal": None,
    "placements": [
        {
            "host": "h1",
            "alternates": ["h2", "h3"],
            "cpuset_cpus": "0-1",
            "cpuset_mems": "0",
            "cells": [{**CELL, "node": 0, "cpuset_cpus": "0-1", "withheld_cpus": "2"}],
        }
    ],
}


def run(command, answer, *argv, max_version="1.42"):
    """The exit code, what was printed, and what was asked."""
    answers = {
        ("GET", "/v1/containers/web%2F1/explain"): (200, answer),
        ("POST", "/v1/placement/dry_run"): (200, answer),
        ("POST", "/v1/placement/capacity"): (200, answer),
    }
    with serving(answers, max_version=max_version) as server:
        app = types.SimpleNamespace(
            stdout=io.StringIO(), client_manager=types.SimpleNamespace(container=client(server))
        )
        instance = command(app, None)
        code = instance.run(instance.get_parser("openstack").parse_args(argv))
    return code, app.stdout.getvalue(), server.asked_of_v1


def test_an_explanation_in_words():
    code, printed, asked = run(ExplainContainer, EXPLAINED, "web/1")
    assert code == 0
    assert asked == [Asked("GET", "/v1/containers/web%2F1/explain", "1.42", None)]
    assert printed.splitlines() == [
        REFUSAL["reason"],
        "",
        "4 hosts by what binds first: 3 cpus, 1 service",
        "It would have fitted with:",
        "  --cpu 4 --numa-cpus 3,1",
        "  --numa-nodes 2 without --numa-cpus, --numa-mem",
        "  without --mem-page-size",
    ]


def test_an_administrator_reads_of_hosts():
    _, printed, _ = run(ExplainContainer, {**EXPLAINED, **DETAILS}, "web/1")
    assert printed.splitlines()[-15:] == [
        "",
        "h1: cpus: no cell has 6 CPUs free: best is cell 0 with 4",
        "  wanted of one cell: 6 CPUs, 512 MiB in pages of 2048 KiB",
        "  cell 0 has 4 CPUs free (1 whole core), 64 in the shared pool, 100 MiB, 8 pages of 2048 KiB",
        "  would take --cpu 4",
        "",
        "h2: service: its compute service is disabled",
        "  it has disabled reason rack move",
        "",
        "h3: label: its label rack is not 'r1'",
        "  it has labels rack=r2, row=none",
        "  it has runtimes crun, runc",
        "  it has projects none",
        "",
        "2 hosts more, none nearer.",
    ]


def test_an_explanation_without_a_way_out():
    _, printed, _ = run(ExplainContainer, {**EXPLAINED, "changes": []}, "web/1")
    assert printed.splitlines()[-3:] == [
        "Nothing like it would fit by a change in one respect. What may help:",
        f"  {explanation.SHORT}",
        f"  {explanation.HELP['service']}",
    ]


def test_every_code_of_a_host_has_an_advice():
    # No request can ask for a device yet.
    assert {*map(str, HostCode)} - {"device"} == set(explanation.HELP)


def test_an_explanation_for_programs():
    _, printed, _ = run(ExplainContainer, EXPLAINED, "web/1", "-f", "json")
    assert json.loads(printed) == EXPLAINED
    _, printed, _ = run(ExplainContainer, EXPLAINED, "web/1", "-f", "value", "-c", "hosts")
    assert printed == "4\n"


SHAPE = (
    "--cpu", "2", "--memory", "512", "--disk", "3", "--availability-zone", "nova", "--hint", "label:a=b",
    "--cpu-policy", "dedicated", "--numa-nodes", "2", "--numa-cpus", "1,1", "--host", "h1", "--runtime", "runc",
    "--group", "web", "--image", "web:1", "--mount", "source=data,destination=/d",
)  # fmt: skip
BODY = {
    "cpu": "2",
    "memory": "512",
    "disk": 3,
    "availability_zone": "nova",
    "hints": {"label:a": "b", "group": "web"},
    "cpu_policy": "dedicated",
    "numa_nodes": 2,
    "numa_cpus": [1, 1],
    "host": "h1",
    "runtime": "runc",
    "image": "web:1",
    "mounts": [{"source": "data", "destination": "/d"}],
}


@pytest.mark.parametrize(
    ("command", "path", "argv", "body"),
    [
        (PlacementDryRun, "dry_run", (), {}),
        (PlacementDryRun, "dry_run", (*SHAPE, "--count", "3"), {**BODY, "count": 3}),
        (PlacementCapacity, "capacity", (), {}),
        (PlacementCapacity, "capacity", (*SHAPE, "--limit", "7"), {**BODY, "limit": 7}),
    ],
)
def test_what_is_asked(command, path, argv, body):
    answer = {**MINE, "total": 1, "complete": True}
    _, _, asked = run(command, answer, *argv)
    assert asked == [Asked("POST", f"/v1/placement/{path}", "1.42", body)]


def test_a_dry_run_as_an_administrator_and_a_user_see_it():
    code, printed, _ = run(PlacementDryRun, ADMINS, "-f", "csv")
    assert (code, printed.splitlines()[1]) == (
        0, '1,"h1","0-1","0","cell 0: 2 CPUs (1 kept idle), 512 MiB in 256 pages of 2048 KiB","h2, h3"',
    )
    code, printed, _ = run(PlacementDryRun, MINE, "-f", "csv")
    assert (code, printed.splitlines()[1]) == (
        0, '1,"","","","2 CPUs (1 kept idle), 512 MiB in 256 pages of 2048 KiB",""',
    )


def test_a_dry_run_that_fails_says_why_and_exits_with_1(capsys):
    code, printed, _ = run(PlacementDryRun, {**MINE, "fits": False, "refusal": REFUSAL}, "-f", "csv", "-c", "Container")
    assert (code, printed.splitlines()) == (1, ['"Container"', "1"])
    assert capsys.readouterr().err.splitlines()[0] == REFUSAL["reason"]


@pytest.mark.parametrize(
    ("answer", "rows"),
    [
        ({"total": 7, "complete": True}, ['"(all)","7","",""']),
        (
            {
                "total": 5,
                "complete": False,
                "hosts": [
                    {"host": "h1", "count": 4, "code": "cpus", "reason": "full"},
                    {"host": "h2", "count": 1, "code": None, "reason": None},
                ],
            },
            ['"h1","4","cpus","full"', '"h2","1","",""', '"(all)","5+","",""'],
        ),
    ],
)
def test_capacity(answer, rows):
    code, printed, _ = run(PlacementCapacity, answer, "-f", "csv")
    assert (code, printed.splitlines()) == (0, ['"Host","Count","Code","Reason"', *rows])


@pytest.mark.parametrize(
    ("command", "argv"), [(ExplainContainer, ("web/1",)), (PlacementDryRun, ()), (PlacementCapacity, ())]
)
def test_an_older_service_is_named(command, argv):
    with pytest.raises(exceptions.CommandError, match=r"microversion 1\.42"):
        run(command, {}, *argv, max_version="1.41")
