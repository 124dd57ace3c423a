# SPDX-License-Identifier: Apache-2.0
"""``appcontainer host audit`` against a real HTTP server."""

import io
import json
import types

import pytest
from osc_lib import exceptions

from zun.osc.hosts import AuditHost
from zun.tests.functional.osc.recorder import Asked, client, serving

DRIFTED = {
    "code": "drifted",
    "container": "c-1",
    "name": "web",
    "layer": "cgroup",
    "detail": "its control group allows CPUs 0-7",
    "repair": "one update",
    "repaired": False,
}
SELF_PINNED = DRIFTED | {"code": "self-pinned", "layer": "thread"}


ISOLATION = {
    "container": "c-1",
    "name": "web",
    "cpus": "2-3",
    "asked": "core",
    "reached": "l3",
    "interrupts": 12,
    "irqs": "24,30",
    "network_softirqs": 34,
    "whole_cores": True,
}


def run(findings, *argv, max_version="1.41", **more):
    """The exit code, what was printed, and what was asked."""
    answer = {"host": "h1", "findings": findings, "containers": {"ok": 1}, "totals": {}, "isolation": [ISOLATION]}
    answer |= more
    with serving({("POST", "/v1/hosts/h1/audit"): (200, answer)}, max_version=max_version) as server:
        app = types.SimpleNamespace(
            stdout=io.StringIO(), client_manager=types.SimpleNamespace(container=client(server))
        )
        command = AuditHost(app, None)
        code = command.run(command.get_parser("openstack").parse_args(argv))
    return code, app.stdout.getvalue(), server.asked_of_v1


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], 0),
        ([DRIFTED], 1),
        ([DRIFTED | {"repaired": True}], 0),
        ([DRIFTED | {"repaired": True}, DRIFTED], 1),
        ([SELF_PINNED], 0),
        ([SELF_PINNED, DRIFTED | {"code": "foreign"}], 1),
    ],
)
def test_the_exit_code_tells_whether_somebody_has_to_act(findings, code):
    assert run(findings, "h1")[0] == code


@pytest.mark.parametrize(("argv", "repair"), [(["h1"], False), (["--repair", "h1"], True)])
def test_what_is_asked(argv, repair):
    _, _, asked = run([], *argv)
    assert asked == [Asked("POST", "/v1/hosts/h1/audit", "1.41", {"repair": repair})]


def test_what_is_printed():
    _, printed, _ = run([DRIFTED], "h1", "-f", "csv", "-c", "Code", "-c", "Container", "-c", "Layer", "-c", "Repaired")
    assert printed.splitlines() == ['"Code","Container","Layer","Repaired"', '"drifted","c-1","cgroup",False']


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"ok": 12}, "12 containers looked at, nothing found."),
        ({"ok": 1}, "1 container looked at, nothing found."),
        ({"ok": 0}, "0 containers looked at, nothing found."),
        (
            {"ok": 3, "skipped": 2},
            "3 containers looked at, nothing found. 2 containers could not be looked at now: the next audit does.",
        ),
    ],
)
def test_an_audit_without_findings_says_so(counts, said):
    code, printed, _ = run([], "h1", containers=counts)
    assert (code, printed) == (0, f"Host h1: all is well. {said}\n")


def test_isolation_of_no_container_says_so():
    assert run([], "h1", "--isolation", isolation=[])[1] == "Host h1: no container with dedicated CPUs is there.\n"


@pytest.mark.parametrize(
    ("formatter", "expected"), [("json", []), ("value", None), ("csv", None), ("yaml", None)]
)
def test_programs_get_an_empty_list(formatter, expected):
    _, printed, _ = run([], "h1", "-f", formatter)
    assert "all is well" not in printed
    if formatter == "json":
        assert json.loads(printed) == expected
    if formatter == "value":
        assert printed.strip() == ""


def test_isolation_option_prints_isolation_with_same_exit_code():
    code, printed, _ = run([DRIFTED], "h1", "--isolation", "-f", "csv")
    assert code == 1
    assert printed.splitlines() == [
        '"Container","Name","CPUs","Asked","Reached","Interrupts","IRQs","Network softirqs","Whole cores","Stuck",'
        '"Last minute","Problem"',
        '"c-1","web","2-3","core","l3",12,"24,30",34,True,"","",""',
    ]


def test_isolation_of_a_newer_service_names_stuck_interrupts():
    told = [{**ISOLATION, "stuck": {"24": "nvme0q3: Input/output error", "30": "eth0: Input/output error"}}]
    code, printed, asked = run([], "h1", "--isolation", "-f", "json", max_version="1.51", isolation=told)
    assert (code, asked[0].version) == (0, "1.51")
    assert json.loads(printed)[0]["Stuck"] == "24 nvme0q3: Input/output error; 30 eth0: Input/output error"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, ""),
        (
            {"seconds": 60.2, "interrupts": 3, "switches": 12, "llc_misses": None, "interrupts_by_cpu": {"4": 3}},
            "3 interrupts, 12 switches in 60 s",
        ),
        ({"seconds": 59.6, "interrupts": 0, "waited_seconds": 0.0}, "nothing in 60 s"),
    ],
)
def test_isolation_tells_what_came_in_the_last_minute(found, text):
    told = [{**ISOLATION, "stuck": {}, "last_minute": found}]
    _, printed, _ = run([], "h1", "--isolation", "-f", "json", max_version="1.51", isolation=told)
    assert json.loads(printed)[0]["Last minute"] == text


def test_an_older_service_is_named():
    with pytest.raises(exceptions.CommandError, match=r"microversion 1\.41"):
        run([], "h1", max_version="1.40")
