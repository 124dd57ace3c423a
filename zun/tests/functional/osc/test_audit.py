# SPDX-License-Identifier: Apache-2.0
"""``appcontainer host audit`` against a real HTTP server."""

import io
import types

import pytest
from osc_lib import exceptions

from zun.osc.hosts import AuditHost
from zun.tests.functional.osc.recorder import Asked, serving
from zun.tests.functional.osc.test_commands import client

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
    "whole_cores": True,
}


def run(findings, *argv, max_version="1.41"):
    """The exit code, what was printed, and what was asked."""
    answer = {"host": "h1", "findings": findings, "containers": {"ok": 1}, "totals": {}, "isolation": [ISOLATION]}
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


def test_isolation_is_printed_instead_and_the_exit_code_is_the_same():
    code, printed, _ = run([DRIFTED], "h1", "--isolation", "-f", "csv")
    assert code == 1
    assert printed.splitlines() == [
        '"Container","Name","CPUs","Asked","Reached","Interrupts","IRQs","Whole cores"',
        '"c-1","web","2-3","core","l3",12,"24,30",True',
    ]


def test_an_older_service_is_named():
    with pytest.raises(exceptions.CommandError, match=r"microversion 1\.41"):
        run([], "h1", max_version="1.40")
