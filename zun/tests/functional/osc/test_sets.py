# SPDX-License-Identifier: Apache-2.0
"""Commands about sets, against a real HTTP server."""

import io
import json
import types

import pytest
from osc_lib import exceptions

from zun.osc import sets, waiting
from zun.osc.containers import CreateContainer, RunContainer
from zun.tests.functional.osc.recorder import Asked, client, serving

FIRST = {"uuid": "c-0", "name": "web-0", "status": "Creating", "set_uuid": "s-1", "addresses": {}}
SET = {
    "uuid": "s-1",
    "name": "web",
    "count": 2,
    "min_count": 2,
    "rules": {"spread": "host"},
    "status_reason": None,
    "members": [
        {"uuid": "c-0", "name": "web-0", "status": "Running"},
        {"uuid": "c-1", "name": "web-1", "status": "Running"},
    ],
    "project_id": "demo",
    "user_id": "alice",
    "created_at": None,
    "updated_at": None,
}
ANSWERS = {
    ("POST", "/v1/containers"): (202, FIRST),
    ("POST", "/v1/containers?run=true"): (202, FIRST),
    ("GET", "/v1/sets/s-1"): (200, SET),
    ("GET", "/v1/sets/web"): (200, SET),
    ("GET", "/v1/sets"): (200, {"sets": [SET], "next": None}),
    **{("POST", f"/v1/sets/web/{action}"): (202, SET) for action in ("start", "stop", "replace")},
    ("DELETE", "/v1/sets/web?stop=true"): (204, None),
}


def run(command, *argv, max_version="1.50", **changed):
    """Return the exit code, what was printed, and the requests."""
    out = io.StringIO()
    with serving({**ANSWERS, **changed.get("answers", {})}, max_version=max_version) as server:
        manager = types.SimpleNamespace(container=client(server))
        made = command(types.SimpleNamespace(stdout=out, client_manager=manager), None)
        code = made.run(made.get_parser("openstack").parse_args([*argv]))
    return code, out.getvalue(), server.asked_of_v1


@pytest.mark.parametrize("command", [CreateContainer, RunContainer])
@pytest.mark.parametrize(("options", "rules"), [
    ((), {}),
    (("--spread", "host"), {"set": {"spread": "host"}}),
    (("--pack", "rack", "--max-per-host", "2", "--min-count", "1"),
     {"set": {"pack": "rack", "max_per_host": 2, "min_count": 1}}),
])
def test_count_makes_a_set(command, options, rules):
    code, out, asked = run(command, "-f", "json", "--count", "2", *options, "--name", "web", "busybox")
    assert (code, asked[0].version) == (0, "1.50")
    assert {name: asked[0].body[name] for name in ("count", *rules)} == {"count": 2, **rules}
    assert json.loads(out)["members"] == "web-0 (Running), web-1 (Running)"


def test_wait_ends_when_each_member_runs():
    code, out, asked = run(RunContainer, "-f", "json", "--count", "2", "--wait", "--name", "web", "busybox")
    assert code == 0 and json.loads(out)["statuses"] == "Running=2"
    assert [each.method for each in asked] == ["POST", "GET", "GET"]


@pytest.mark.parametrize(("argv", "told"), [
    pytest.param(("--spread", "host"), "--spread: rules of a set need --count", id="rules-alone"),
    pytest.param(("--count", "2", "--interactive"), "--interactive is for one container", id="interactive"),
])
def test_options_that_do_not_go_together(argv, told):
    with pytest.raises(exceptions.CommandError, match=told):
        run(RunContainer, *argv, "busybox")


def test_older_service_is_named():
    with pytest.raises(exceptions.CommandError, match=r"--count needs .* 1\.50 or later"):
        run(RunContainer, "--count", "2", "busybox", max_version="1.49")


@pytest.mark.parametrize(("command", "argv", "expected"), [
    (sets.ListSets, (), Asked("GET", "/v1/sets", "1.50", None)),
    (sets.ShowSet, ("web",), Asked("GET", "/v1/sets/web", "1.50", None)),
    (sets.StartSet, ("web",), Asked("POST", "/v1/sets/web/start", "1.50", None)),
    (sets.StopSet, ("web",), Asked("POST", "/v1/sets/web/stop", "1.50", None)),
    (sets.ReplaceSet, ("web",), Asked("POST", "/v1/sets/web/replace", "1.50", None)),
    (sets.DeleteSet, ("--stop", "web"), Asked("DELETE", "/v1/sets/web?stop=true", "1.50", None)),
])
def test_commands(command, argv, expected):
    code, _, asked = run(command, *argv)
    assert (code, asked) == (0, [expected])


def look_at(*statuses, reason=None):
    members = [{"uuid": str(n), "name": f"web-{n}", "status": status} for n, status in enumerate(statuses)]
    item = {**SET, "members": members, "count": len(members), "status_reason": reason}
    http = types.SimpleNamespace(json_request=lambda *_: (None, item))
    return sets.until(http, "s-1", "Running", "Stopped")()


@pytest.mark.parametrize(("seen", "expected"), [
    pytest.param(look_at("Running", "Stopped"), waiting.Seen(True), id="done"),
    pytest.param(look_at("Running", "Creating"), waiting.Seen(False, text="1 of 2"), id="busy"),
    pytest.param(look_at("Error", "Creating"), waiting.Seen(False, text="0 of 2"), id="the-others-are-waited-for"),
    pytest.param(
        look_at("Error", "Running", reason="no room"),
        waiting.Seen(False, failed="1 of 2 members are in status Error: no room"),
        id="failed",
    ),
])
def test_what_is_waited_for(seen, expected):
    assert seen == expected
