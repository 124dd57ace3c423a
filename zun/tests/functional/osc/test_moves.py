# SPDX-License-Identifier: Apache-2.0
"""``appcontainer host defragment`` against a real HTTP server."""

import io
import json
import types

import pytest
from osc_lib import exceptions

from zun.osc import moves
from zun.osc.moves import DefragmentHost, EvacuateHost
from zun.tests.functional.osc.recorder import Asked, client, serving

MOVE = {
    "container": "c-1",
    "name": "web",
    "old_cpuset_cpus": "0-1",
    "old_cpuset_mems": "0",
    "cpuset_cpus": "6-7",
    "cpuset_mems": "1",
    "mib": 512,
}
ANSWER = {"host": "one", "proven": True, "reason": None, "accepted": 1, "moves": [MOVE]}
NONE = {"host": None, "proven": False, "reason": "one: full", "accepted": 0, "moves": []}
BODY = {"cpu": 4, "memory": 512, "cpu_policy": "dedicated"}
PATH = "/v1/placement/defragment"


def run(answer, *argv, max_version="1.49", **more):
    """Return the exit code, the rows, and the requests."""
    out = io.StringIO()
    with serving({("POST", PATH): (200, answer), **more}, max_version=max_version) as server:
        manager = types.SimpleNamespace(container=client(server))
        command = DefragmentHost(types.SimpleNamespace(stdout=out, client_manager=manager), None)
        code = command.run(command.get_parser("openstack").parse_args([*argv, "-f", "json"]))
    return code, json.loads(out.getvalue()), server.asked_of_v1


@pytest.mark.parametrize(
    ("argv", "body"),
    [
        (("one", "--for", "4:512"), {**BODY, "host": "one"}),
        (("--all", "--for", "4"), {"cpu": 4, "cpu_policy": "dedicated"}),
        (("--all", "--for", "4:512", "--dry-run", "--wait"), {**BODY, "dry_run": True}),
        (("--all", "--for", "4:512", "--numa-nodes", "2"), {**BODY, "numa_nodes": 2}),
        (("one", "--near"), {"near": True, "host": "one"}),
    ],
)
def test_what_is_asked(argv, body):
    code, rows, asked = run(ANSWER, *argv)
    assert (code, asked) == (0, [Asked("POST", PATH, "1.49", body)])
    assert [list(row.values()) for row in rows] == [["c-1", "web", "0-1", "0", "6-7", "1", 512]]


@pytest.mark.parametrize(
    ("answer", "argv", "code", "told"),
    [
        (ANSWER, (), 0, "Host one: 1 move of 1 under way.\n"),
        (ANSWER, ("--near", "--dry-run"), 0, "Host one: after 1 move no claim would be remote.\n"),
        ({**ANSWER, "proven": False}, ("--near", "--dry-run"), 0, "after 1 move some claims would stay remote.\n"),
        ({**ANSWER, "moves": []}, ("--near",), 0, "Host one: no claim is remote.\n"),
        ({**ANSWER, "moves": [], "proven": False}, ("--near",), 0, "found that bring a remote claim nearer.\n"),
        (ANSWER, ("--dry-run",), 0, "Host one: 1 move would make room; no others are cheaper.\n"),
        ({**ANSWER, "proven": False}, ("--dry-run",), 0, "1 move would make room; others may be cheaper.\n"),
        ({**ANSWER, "moves": []}, (), 0, "Host one has room already: nothing is moved.\n"),
        (NONE, (), 1, "No moves help: one: full\n"),
        ({**ANSWER, "accepted": 0, "reason": "c-1 is gone"}, (), 1, "0 moves of 1 under way. c-1 is gone\n"),
    ],
)
def test_what_is_told(capsys, answer, argv, code, told):
    what = () if "--near" in argv else ("--for", "4:512")
    assert run(answer, "one", *what, *argv)[0] == code
    assert capsys.readouterr().err.endswith(told)


GONE = {"errors": [{"status": 404, "title": "Not found", "detail": "Container c-1 could not be found."}]}


def looks(finish_time, message=None, status=200):
    other = {"request_id": "req-other", "message": "Error", "finish_time": None}
    listed = {"containerActions": [{"request_id": None, "message": message, "finish_time": finish_time}, other]}
    return {("GET", "/v1/containers/c-1/container_actions"): (status, listed if status == 200 else GONE)}


@pytest.mark.parametrize(
    ("seen", "code", "told"),
    [
        (looks("2026-11-29T15:01:41"), 0, ""),
        (
            looks("2026-11-29T15:01:41", "Error"),
            1,
            "Container c-1 was not moved: 'openstack appcontainer action show c-1 None' says why.",
        ),
        (looks(None, status=404), 1, "Container c-1 was not moved: it was deleted."),
    ],
)
def test_wait_ends_with_the_moves(capsys, seen, code, told):
    with serving({("POST", PATH): (200, ANSWER), **seen}, max_version="1.49") as server:
        manager = types.SimpleNamespace(container=client(server))
        command = DefragmentHost(types.SimpleNamespace(stdout=io.StringIO(), client_manager=manager), None)
        assert command.run(command.get_parser("openstack").parse_args(["one", "--for", "4:512", "--wait"])) == code
    assert told in capsys.readouterr().err


def test_wait_gives_up(monkeypatch):
    monkeypatch.setattr(moves, "QUIET", 0.0)
    with serving({("POST", PATH): (200, ANSWER), **looks(None)}, max_version="1.49") as server:
        manager = types.SimpleNamespace(container=client(server))
        command = DefragmentHost(types.SimpleNamespace(stdout=io.StringIO(), client_manager=manager), None)
        with pytest.raises(exceptions.CommandError, match=r"No move has ended for 0 seconds. Left: c-1"):
            command.run(command.get_parser("openstack").parse_args(["one", "--for", "4:512", "--wait"]))


@pytest.mark.parametrize("size", ["0", "4:", "4:x", "x", "4:512:1", "-4"])
def test_sizes_that_are_none(capsys, size):
    with pytest.raises(SystemExit):
        run(ANSWER, "one", f"--for={size}")
    assert "is not a whole number of 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [("--for", "4"), ("one", "--all", "--for", "4"), ("one",)])
def test_one_host_or_all_and_a_size(capsys, argv):
    with pytest.raises(SystemExit):
        run(ANSWER, *argv)


def test_an_older_server():
    with pytest.raises(exceptions.CommandError, match=r"needs a container service with API microversion 1\.49"):
        run(ANSWER, "one", "--for", "4", max_version="1.48")


TAKEN = {"container": "c-1", "name": "web", "runs": True, "reason": None}
STAYS = {"container": "c-2", "name": "db", "runs": True, "reason": "it mounts volumes"}


def evacuated(*argv, containers=(TAKEN,), shown=None):
    """Return the exit code, the results, and the body that was sent."""
    out = io.StringIO()
    answers = {
        ("POST", "/v1/hosts/one/evacuate"): (200, {"host": "one", "containers": list(containers)}),
        ("GET", "/v1/containers/c-1?all_projects=true"): (200, shown),
    }
    with serving(answers, max_version="1.49") as server:
        manager = types.SimpleNamespace(container=client(server))
        command = EvacuateHost(types.SimpleNamespace(stdout=out, client_manager=manager), None)
        code = command.run(command.get_parser("openstack").parse_args(["one", *argv, "-f", "json"]))
    return code, [row["Result"] for row in json.loads(out.getvalue())], server.asked_of_v1[0].body


@pytest.mark.parametrize(
    ("argv", "more", "expected"),
    [
        (("--dry-run",), {}, (0, ["can be taken elsewhere"], {"dry_run": True})),
        (("--host-is-down",), {}, (0, ["is taken elsewhere"], {"host_is_down": True})),
        (
            ("--host-is-down",),
            {"containers": (TAKEN, STAYS)},
            (1, ["is taken elsewhere", "stays: it mounts volumes"], {"host_is_down": True}),
        ),
        (
            ("--host-is-down", "--wait"),
            {"shown": {"status": "Running", "host": "two"}},
            (0, ["Running on two"], {"host_is_down": True}),
        ),
        (
            ("--host-is-down", "--wait"),
            {"shown": {"status": "Error", "status_reason": "full"}},
            (1, ["Error: full"], {"host_is_down": True}),
        ),
    ],
)
def test_what_becomes_of_the_containers_of_a_host(argv, more, expected):
    assert evacuated(*argv, **more) == expected


@pytest.mark.parametrize("argv", [(), ("--wait",), ("--dry-run", "--host-is-down")])
def test_an_evacuation_needs_a_word(capsys, argv):
    with pytest.raises(SystemExit):
        evacuated(*argv)
