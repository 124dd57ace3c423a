# SPDX-License-Identifier: Apache-2.0
import io
import json
import types

import pytest
from osc_lib import exceptions
from zunclient import exceptions as zun_exceptions

from zun.osc import drains, waiting
from zun.osc.drains import DrainHost, MoveContainer, UndrainHost

GONE = zun_exceptions.NotFound()


class Http:
    """Gives the answers to (method, path) in turn, and the last one again and again; ``asked`` keeps the requests."""

    api_version = None

    def __init__(self, answers):
        self.answers, self.asked = {request: list(given) for request, given in answers.items()}, []

    def json_request(self, method, path, body=None):
        self.asked.append((method, path, body))
        left = self.answers[method, path]
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return types.SimpleNamespace(headers={"x-openstack-request-id": "req-1"}), answer


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    for module, name in ((drains, "PAUSE"), (waiting, "FIRST_PAUSE"), (waiting, "LONGEST_PAUSE")):
        monkeypatch.setattr(module, name, 0.0)


def run(command, argv, answers, max_version="1.49"):
    """Return the exit code, what is on stdout, and the requests."""
    http, out = Http(answers), io.StringIO()
    current = types.SimpleNamespace(max_version=max_version)
    client = types.SimpleNamespace(http_client=http, versions=types.SimpleNamespace(get_current=lambda: current))
    app = types.SimpleNamespace(stdout=out, client_manager=types.SimpleNamespace(container=client))
    instance = command(app, None)
    code = instance.run(instance.get_parser("openstack").parse_args(argv))
    return code, out.getvalue(), http.asked


# appcontainer move

UUID = "6f0c2f1e-0000-4000-8000-000000000001"
ITEM = f"/v1/containers/{UUID}"


@pytest.mark.parametrize(
    ("argv", "path"),
    [
        (["web"], "/v1/containers/web/move"),
        (["web", "node-b"], "/v1/containers/web/move?host=node-b"),
        (["a/b", "b&c", "--discard-layer"], "/v1/containers/a%2Fb/move?host=b%26c&discard_layer=true"),
    ],
)
def test_a_move_without_wait_is_one_request(argv, path):
    code, out, asked = run(MoveContainer, argv, {("POST", path): [[]]})
    assert (code, out) == (0, f"Request to move container {argv[0]} has been accepted.\n")
    assert asked == [("POST", path, None)]


def shown(status, host="node-a", reason=None, **more):
    return {"uuid": UUID, "status": status, "host": host, "status_reason": reason, **more}


def action(name, message=None, *, ended=True, request="req-1"):
    finish_time = "2026-11-29T15:01:41" if ended else None
    return {"action": name, "request_id": request, "finish_time": finish_time, "message": message}


OTHERS = (action("move", "Error", request="req-0"), action("stop", ended=False, request=None))
LEAVES, LEFT = action("leave", ended=False), action("leave")
RUNS, AWAY = shown("Running"), shown("Creating", None, "It moves to another host.")


def moved(looks, events=(), *, first=RUNS):
    """Return the exit code and what is on stdout. ``looks`` are pairs of a container and its actions."""
    containers, actions = zip(*looks, strict=True)
    listed = [one if isinstance(one, Exception) else {"containerActions": [*OTHERS, *one]} for one in actions]
    answers = {
        ("GET", "/v1/containers/web"): [first],
        ("POST", f"{ITEM}/move"): [[]],
        ("GET", ITEM): containers,
        ("GET", f"{ITEM}/container_actions"): listed,
        ("GET", f"{ITEM}/container_actions/req-1"): [{"events": [{"traceback": told} for told in events]}],
    }
    return run(MoveContainer, ["web", "--wait"], answers)[:2]


@pytest.mark.parametrize(
    ("looks", "told", "more"),
    [
        pytest.param(
            [
                (RUNS, [LEAVES]),
                (AWAY, [LEFT, action("create", ended=False)]),
                (shown("Created", "node-b"), [LEFT, action("create", ended=False)]),
                (shown("Running", "node-b"), [LEFT, action("create")]),
            ],
            "It is Running on node-b.",
            {},
            id="runs-elsewhere",
        ),
        pytest.param([(shown("Created", "node-b"), [LEFT])], "It is Created on node-b.", {}, id="is-made-elsewhere"),
        pytest.param([(shown("Stopped", "node-b"), [LEFT])], "It is Stopped on node-b.", {}, id="has-ended-there"),
        pytest.param(
            [(RUNS, [LEFT]), (AWAY, [LEFT]), (shown("Running", "node-b"), [LEFT])],
            "It is Running on node-b.",
            {},
            id="seen-just-before-it-left",
        ),
        pytest.param(
            [(RUNS, []), (RUNS, [LEAVES]), (AWAY, [LEFT]), (shown("Running", "node-b"), [LEFT])],
            "It is Running on node-b.",
            {},
            id="seen-before-its-action",
        ),
        pytest.param(
            [(RUNS, []), (shown("Error", None), [LEFT]), (shown("Running", "node-b"), [LEFT])],
            "It is Running on node-b.",
            {},
            id="error-for-a-moment",
        ),
        pytest.param(
            [(shown("Running", None), [LEFT])], "It is Running.", {"first": shown("Running", None)}, id="hosts-unseen"
        ),
    ],
)
def test_wait_ends_on_another_host(looks, told, more):
    assert moved(looks, **more) == (0, f"Request to move container web has been carried out. {told}\n")


TRACEBACK = """Traceback (most recent call last):
  File "agent.py", line 1, in leave
zun.common.exceptions.Conflict: It holds devices: it stays.
"""
FAILED = action("leave", "Error")


@pytest.mark.parametrize(
    ("looks", "events", "told"),
    [
        pytest.param(
            [(RUNS, [LEAVES]), (RUNS, [FAILED])],
            ["it has written files"],
            "it has written files. It is Running on node-a.",
            id="cannot-leave",
        ),
        pytest.param(
            [(RUNS, [FAILED])],
            [None, TRACEBACK],
            "It holds devices: it stays. It is Running on node-a.",
            id="traceback",
        ),
        pytest.param(
            [(RUNS, [FAILED])],
            [None],
            f"'openstack appcontainer action show {UUID} req-1' says why. It is Running on node-a.",
            id="reason-unseen",
        ),
        pytest.param(
            [
                (AWAY, [LEFT, action("create", ended=False)]),
                (shown("Error", "node-b", "no room"), [LEFT, action("create", "Error")]),
                (shown("Stopped", "node-a"), [FAILED, action("create", "Error"), action("start", ended=False)]),
                (RUNS, [FAILED, action("create", "Error"), action("start")]),
            ],
            [None, "no room"],
            "no room. It is Running on node-a.",
            id="comes-back",
        ),
        pytest.param([(AWAY, [LEFT]), (GONE, [])], [], "the container was deleted", id="deleted"),
        pytest.param([(AWAY, GONE)], [], "the container was deleted", id="deleted-between-two-requests"),
    ],
)
def test_wait_says_why_a_container_has_not_moved(capsys, looks, events, told):
    assert moved(looks, events) == (1, "")
    assert capsys.readouterr().err == f"Request to move container web failed: {told}\n"


@pytest.mark.parametrize("reason", ["no room", None])
def test_wait_ends_when_error_lasts(monkeypatch, capsys, reason):
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)
    assert moved([(shown("Error", None, reason), [LEFT, action("create", "Error")])])[0] == 1
    told = f"the container is in status Error: {reason or 'no reason is given'}"
    assert capsys.readouterr().err == f"Request to move container web failed: {told}\n"


@pytest.mark.parametrize("actions", [[], [LEFT]])
def test_wait_gives_up_when_nothing_happens(monkeypatch, capsys, actions):
    monkeypatch.setattr(waiting, "QUIET", 0.0)
    assert moved([(RUNS, actions)])[0] == 1
    assert "nothing has been under way for 0 seconds (status Running)" in capsys.readouterr().err


def test_a_refused_move_fails(capsys):
    refused = zun_exceptions.Conflict("it mounts volumes")
    assert run(MoveContainer, ["web"], {("POST", "/v1/containers/web/move"): [refused]})[0] == 1
    assert capsys.readouterr().err.startswith("Request to move container web failed: it mounts volumes")


# appcontainer host drain

PATH = "/v1/hosts/node-a/drain"


def one(number, state, to=None, reason=None):
    return {"container": f"c-{number}", "name": f"web-{number}", "state": state, "to": to, "reason": reason}


def drain(*containers, done=False):
    fixed = {"host": "node-a", "since": "2026-11-29T15:01:41", "parallel": 1, "discard_layer": False}
    return {**fixed, "done": done, "containers": list(containers)}


def drained(argv, first, *later):
    """Return the exit code, the results, and the requests."""
    answers = {("POST", PATH): [first], ("GET", PATH): later}
    code, out, asked = run(DrainHost, ["node-a", *argv, "-f", "json"], answers)
    rows = json.loads(out)
    assert all(list(row) == ["Container", "Name", "Result"] for row in rows)
    return code, [row["Result"] for row in rows], asked


@pytest.mark.parametrize(
    ("argv", "body"),
    [
        ([], {}),
        (["--dry-run"], {"dry_run": True}),
        (["--parallel", "4", "--discard-layer"], {"parallel": 4, "discard_layer": True}),
    ],
)
def test_what_a_drain_asks(argv, body):
    assert drained(argv, drain(done=True)) == (0, [], [("POST", PATH, body)])


@pytest.mark.parametrize("wait", [[], ["--wait"]])
@pytest.mark.parametrize(
    ("containers", "code", "results"),
    [
        ([one(1, "waits", "node-b"), one(2, "waits")], 0, ["would move to node-b", "would move"]),
        ([one(1, "stays", reason="it mounts volumes")], 1, ["stays: it mounts volumes"]),
    ],
)
def test_a_dry_run_shows_where_containers_would_go(capsys, wait, containers, code, results):
    assert drained(["--dry-run", *wait], drain(*containers))[:2] == (code, results)
    assert capsys.readouterr().err == ""


def test_show_asks_only(capsys):
    code, out, asked = run(DrainHost, ["node-a", "--show", "-f", "json"], {("GET", PATH): [drain(one(1, "waits"))]})
    assert (code, [row["Result"] for row in json.loads(out)], [each[0] for each in asked]) == (0, ["waits"], ["GET"])
    assert capsys.readouterr().err == GOES_ON


GOES_ON = "The drain goes on. The same command with --show says how far it is.\n"
STATES = [one(1, "waits"), one(2, "moves", "node-b"), one(3, "moves"), one(4, "moved", "node-c")]
RESULTS = ["waits", "moves to node-b", "moves", "moved to node-c"]


@pytest.mark.parametrize(
    ("containers", "done", "expected", "told"),
    [
        (STATES, False, (0, RESULTS), GOES_ON),
        ([one(1, "waits", None, "no room yet")], False, (0, ["waits: no room yet"]), GOES_ON),
        ([one(1, "moves"), one(2, "stays", None, "no room")], False, (1, ["moves", "stays: no room"]), GOES_ON),
        ([one(1, "moved", "node-b")], True, (0, ["moved to node-b"]), ""),
        ([one(1, "stays", "node-b", "no room")], True, (1, ["stays: no room"]), ""),
    ],
)
def test_a_drain_without_wait_shows_its_state(capsys, containers, done, expected, told):
    assert drained([], drain(*containers, done=done))[:2] == expected
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    ("answers", "expected", "told"),
    [
        pytest.param([drain(one(1, "moved", "b"), done=True)], (0, ["moved to b"]), "", id="done-already"),
        pytest.param(
            [
                drain(one(1, "waits"), one(2, "waits"), one(3, "moved", "d")),
                drain(one(1, "moves", "b"), one(2, "waits"), one(3, "moved", "d")),
                drain(one(1, "moved", "b"), one(2, "moves", "c"), one(3, "moved", "d")),
                drain(one(1, "moved", "b"), one(2, "moved", "c"), one(3, "moved", "d"), done=True),
            ],
            (0, ["moved to b", "moved to c", "moved to d"]),
            "2 of 3: web-1 is on b\n3 of 3: web-2 is on c\n",
            id="one-after-the-other",
        ),
        pytest.param(
            [
                drain(one(1, "moves", "b"), one(2, "moves", "b"), one(3, "waits")),
                drain(one(1, "moved", "b"), one(2, "moved", "c"), one(3, "stays", None, "no room"), done=True),
            ],
            (1, ["moved to b", "moved to c", "stays: no room"]),
            "1 of 3: web-1 is on b\n2 of 3: web-2 is on c\n",
            id="two-at-once-and-one-stays",
        ),
        pytest.param(
            [
                drain(one(1, "stays", None, "no room")),
                drain(one(1, "moves", "b")),
                drain(one(1, "moved", "b"), done=True),
            ],
            (0, ["moved to b"]),
            "1 of 1: web-1 is on b\n",
            id="stayed-at-first",
        ),
    ],
)
def test_wait_tells_of_each_container_that_moved(capsys, answers, expected, told):
    code, results, asked = drained(["--wait"], *answers)
    assert (code, results) == expected
    assert asked == [("POST", PATH, {}), *[("GET", PATH, None)] * (len(answers) - 1)]
    assert capsys.readouterr().err == told


def test_wait_ends_when_the_drain_is_ended():
    with pytest.raises(exceptions.CommandError, match=r"Host node-a is not being drained any more"):
        drained(["--wait"], drain(one(1, "moves")), GONE)


@pytest.mark.parametrize("number", ["0", "-1", "x"])
def test_parallel_is_at_least_one(capsys, number):
    with pytest.raises(SystemExit):
        drained([f"--parallel={number}"], drain())
    assert "is not a whole number of 1 or more" in capsys.readouterr().err


# appcontainer host undrain


def test_undrain_prints_nothing(capsys):
    code, out, asked = run(UndrainHost, ["a/b"], {("DELETE", "/v1/hosts/a%2Fb/drain"): [[]]})
    assert (code, out, asked) == (0, "", [("DELETE", "/v1/hosts/a%2Fb/drain", None)])
    assert capsys.readouterr().err == ""


def test_undrain_of_a_host_that_is_not_drained_fails():
    with pytest.raises(zun_exceptions.NotFound):
        run(UndrainHost, ["node-a"], {("DELETE", PATH): [GONE]})


@pytest.mark.parametrize(("command", "name"), [(DrainHost, "host drain"), (UndrainHost, "host undrain")])
def test_an_older_server_is_named(command, name):
    with pytest.raises(exceptions.CommandError, match=rf"appcontainer {name} needs .* microversion 1\.49"):
        run(command, ["node-a"], {}, max_version="1.48")


def test_a_move_names_an_older_server(capsys):
    assert run(MoveContainer, ["web"], {}, max_version="1.48")[0] == 1
    assert "appcontainer move needs a container service with API microversion 1.49" in capsys.readouterr().err
