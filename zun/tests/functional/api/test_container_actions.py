# SPDX-License-Identifier: Apache-2.0
"""The sub-actions: in which status, with which arguments, and what the host is told."""

import urllib.parse

import pytest

from zun.common.states import ALLOWED, WORDS, Status
from zun.db import containers as db

# (verb, path and arguments, key in the table of statuses, status of success, body of success)
ACTIONS = [
    ("POST", "start", "start", 202, None),
    ("POST", "stop", "stop", 202, None),
    ("POST", "reboot", "reboot", 202, None),
    ("POST", "rebuild", "rebuild", 202, None),
    ("POST", "pause", "pause", 202, None),
    ("POST", "unpause", "unpause", 202, None),
    ("POST", "kill", "kill", 202, None),
    (
        "POST",
        "execute?command=ls",
        "execute",
        200,
        {"output": "hello\n", "exit_code": 3, "exec_id": None, "proxy_url": None},
    ),
    ("GET", "logs", "logs", 200, "one\ntwo\n"),
    ("GET", "top", "top", 200, {"Titles": ["PID"], "Processes": [["1"]]}),
    ("GET", "stats", "stats", 200, {"CONTAINER": "web", "CPU %": 1.5}),
]


@pytest.mark.parametrize(
    ("version", "told", "shown"),
    [
        pytest.param("1.50", {"last_minute": {"switches": 3}}, {}, id="older-client"),
        pytest.param("1.51", {"last_minute": {"switches": 3}}, {"last_minute": {"switches": 3}}, id="both-new"),
        pytest.param("1.51", {}, {"last_minute": None}, id="older-host"),
    ],
)
def test_statistics_have_the_last_minute_from_1_51(api, placed, host_up, compute, monkeypatch, version, told, shown):
    figures = {"CONTAINER": "web", "CPU %": 1.5}
    monkeypatch.setattr(compute, "answers", {"stats": {**figures, **told}})
    reply = api.at(version).get(f"/v1/containers/{placed('Running').uuid}/stats")
    assert (reply.status, reply.json) == (200, {**figures, **shown})


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize(("verb", "path", "key", "success", "body"), ACTIONS)
def test_actions_in_every_status(api, placed, host_up, compute, verb, path, key, success, body, status):
    container = placed(str(status), name="web")
    reply = api.send(verb, f"/v1/containers/{container.uuid}/{path}")
    if status in ALLOWED[key]:
        assert (reply.status, reply.json) == (success, body)
        assert [(method, uuid) for method, uuid, _ in compute.sent] == [(key, container.uuid)]
        row = db.get(container.uuid)
        assert row["status"] == {"reboot": "Restarting", "rebuild": "Rebuilding"}.get(key, status)
        assert row["task_state"] == {"reboot": "container_rebooting"}.get(key)
    else:
        assert reply.refusal == (409, "invalid-state-exception")
        possible = ", ".join(sorted(ALLOWED[key]))
        cannot = WORDS[key].format(f"container web ({container.uuid})")
        told = f"Cannot {cannot} in {status} state; it is possible in {possible}."
        assert reply.error["detail"] == told
        assert compute.sent == []
        assert db.get(container.uuid)["status"] == status


@pytest.mark.parametrize(
    ("verb", "path", "waits"),
    [
        ("GET", "logs", True),
        ("GET", "top", True),
        ("GET", "stats", True),
        ("GET", "attach", True),
        ("POST", "execute?command=ls", True),
        ("POST", f"execute_resize?exec_id={'a' * 64}&w=80&h=24", True),
        ("POST", "resize?w=80&h=24", True),
        ("POST", "commit?repository=web", True),
        ("POST", "stop", False),
        ("POST", "kill", False),
        ("POST", "pause", False),
        ("POST", "rebuild", False),
    ],
)
def test_nobody_waits_for_a_host_that_is_down(api, placed, compute, verb, path, waits):
    """A request that needs no answer is carried out when the host is back."""
    container = placed("Running", interactive=True)
    reply = api.send(verb, f"/v1/containers/{container.uuid}/{path}")
    if waits:
        assert reply.refusal == (503, "host-unavailable")
    else:
        assert reply.status == 202
    assert len(compute.sent) == (not waits)


@pytest.mark.parametrize(("verb", "path"), [("POST", "/reboot"), ("DELETE", "")])
def test_what_another_request_brought_meanwhile_counts(api, placed, compute, monkeypatch, verb, path):
    """The status is looked at once more where the new one is written."""
    container, accept = placed("Stopped"), db.accept

    def accept_later(uuid, *arguments, **named):
        db.update(uuid, {"status": "Rebuilding"})
        accept(uuid, *arguments, **named)

    monkeypatch.setattr(db, "accept", accept_later)
    reply = api.send(verb, f"/v1/containers/{container.uuid}{path}")
    assert reply.refusal == (409, "invalid-state-exception") and "in Rebuilding state" in reply.error["detail"]
    assert (compute.sent, db.get(container.uuid)["status"]) == ([], "Rebuilding")


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize(
    ("method", "path", "key"), [("PATCH", "", "update"), ("POST", "/resize_container", "resize_container")]
)
def test_changes_in_every_status(api, placed, method, path, key, status):
    reply = api.send(method, f"/v1/containers/{placed(str(status)).uuid}{path}", {"auto_heal": True})
    if status in ALLOWED[key]:
        assert (reply.status, reply.json["auto_heal"]) == (200 if method == "PATCH" else 202, True)
    else:
        assert reply.refusal == (409, "invalid-state-exception")


def test_the_task_state_does_not_matter(api, placed, compute):
    container = placed(task_state="container_pausing")
    assert api.post(f"/v1/containers/{container.uuid}/stop").status == 202


# (verb, path, arguments in the query, what the host is told)
ARGUMENTS = [
    ("POST", "stop", "", {"timeout": None}),
    ("POST", "stop", "timeout=10", {"timeout": 10}),
    ("POST", "stop", "timeout=0", {"timeout": 0}),
    ("POST", "stop", "timeout=", {"timeout": None}),
    ("POST", "reboot", "timeout=7", {"timeout": 7}),
    ("POST", "reboot", "timeout=3600", {"timeout": 3600}),
    ("POST", "reboot", "timeout=", {"timeout": None}),
    ("POST", "kill", "", {"signal": None}),
    ("POST", "kill", "signal=None", {"signal": None}),
    ("POST", "kill", "signal=SIGHUP", {"signal": "SIGHUP"}),
    ("POST", "kill", "signal=hup", {"signal": "SIGHUP"}),
    ("POST", "kill", "signal=sighup", {"signal": "SIGHUP"}),
    ("POST", "kill", "signal=1", {"signal": "SIGHUP"}),
    ("POST", "kill", "signal=9", {"signal": "SIGKILL"}),
    ("POST", "kill", "signal=SIGRTMIN%2B3", {"signal": "SIGRTMIN+3"}),
    ("POST", "kill", "signal=rtmin%2B3", {"signal": "SIGRTMIN+3"}),
    ("POST", "kill", "signal=37", {"signal": "SIGRTMIN+3"}),
    ("POST", "kill", "signal=SIGRTMAX-27", {"signal": "SIGRTMIN+3"}),
    ("POST", "kill", "signal=SIGRTMIN%2B16", {"signal": "SIGRTMAX-14"}),
    ("POST", "kill", "signal=SIGRTMIN%2B0", {"signal": "SIGRTMIN"}),
    ("POST", "kill", "signal=SIGRTMAX-30", {"signal": "SIGRTMIN"}),
    ("POST", "kill", "signal=SIGRTMIN%2B30", {"signal": "SIGRTMAX"}),
    ("POST", "kill", "signal=34", {"signal": "SIGRTMIN"}),
    ("POST", "kill", "signal=64", {"signal": "SIGRTMAX"}),
    ("POST", "start", "colour=red", {}),
    ("POST", "pause", "colour=red", {}),
    ("POST", "execute", "command=%22echo%22%20%22two%20words%22", {"command": ["echo", "two words"]}),
    ("POST", "execute", "command=ls&run=True&interactive=False", {"command": ["ls"]}),
    ("GET", "top", "", {"ps_args": None}),
    ("GET", "top", "ps_args=None", {"ps_args": None}),
    ("GET", "top", "ps_args=", {"ps_args": None}),
    ("GET", "top", "ps_args=1%202", {"ps_args": "1 2"}),
    ("GET", "top", "ps_args=-o%20pid,cmd", {"ps_args": "-o pid,cmd"}),
    ("GET", "stats", "colour=red", {}),
    ("GET", "logs", "", {"stdout": True, "stderr": True, "timestamps": False, "tail": "all", "since": None}),
    (
        "GET",
        "logs",
        "stdout=True&stderr=0&timestamps=on&tail=5&since=1700000000",
        {"stdout": True, "stderr": False, "timestamps": True, "tail": "5", "since": "1700000000"},
    ),
    (
        "GET",
        "logs",
        "tail=many&since=2026-01-31%2012:00:00,5",
        {"stdout": True, "stderr": True, "timestamps": False, "tail": "all", "since": "2026-01-31 12:00:00,5"},
    ),
]


@pytest.mark.parametrize(("verb", "action", "query", "told"), ARGUMENTS)
def test_arguments_reach_the_host_in_one_spelling(api, placed, host_up, compute, verb, action, query, told):
    container = placed("Stopped" if action == "start" else "Running")
    reply = api.send(verb, f"/v1/containers/{container.uuid}/{action}?{query}")
    assert reply.status in (200, 202), reply.json
    assert compute.sent == [(action, container.uuid, told)]


@pytest.mark.parametrize(
    ("action", "body", "told"),
    [
        ("stop", {"timeout": 10}, {"timeout": 10}),
        ("stop", {"timeout": 10.0}, {"timeout": 10}),
        ("kill", {"signal": "TERM"}, {"signal": "SIGTERM"}),
        ("execute", {"command": "ls -l", "run": True}, {"command": ["ls", "-l"]}),
        ("pause", {"colour": "red"}, {}),
    ],
)
def test_arguments_in_the_body(api, placed, host_up, compute, action, body, told):
    container = placed()
    assert api.post(f"/v1/containers/{container.uuid}/{action}", body).status in (200, 202)
    assert compute.sent == [(action, container.uuid, told)]


# (verb, path with a bad query, word in the answer)
BAD = [
    ("POST", "stop?timeout=-1", "timeout"),
    ("POST", "stop?timeout=soon", "timeout"),
    ("POST", "stop?timeout=3601", "timeout: it must be a whole number from 0 to 3600"),
    ("POST", "stop?timeout=99999999999", "timeout"),
    ("POST", "stop?timeout=" + "9" * 5000, "timeout"),
    ("POST", "stop?colour=red", "colour"),
    ("POST", "reboot?timeout=1.5", "timeout"),
    ("POST", "kill?signal=SIGNONE", "signal"),
    ("POST", "kill?signal=", "signal"),
    ("POST", "kill?signal=0", "signal"),
    ("POST", "kill?signal=65", "signal"),
    ("POST", "kill?signal=SIGRTMIN%2B31", "signal"),
    ("POST", "kill?signal=SIGRTMIN-1", "signal"),
    ("POST", "kill?signal=SIGRTMAX%2B1", "signal"),
    ("POST", "kill?signal=Hup", "signal"),
    ("POST", "kill?colour=red", "colour"),
    ("POST", "execute", "command"),
    ("POST", "execute?command=", "command"),
    ("POST", "execute?command=ls&run=maybe", "run"),
    ("POST", "execute?command=ls&colour=red", "colour"),
    ("POST", "execute_resize?w=80&h=24", "exec_id"),
    ("POST", "execute_resize?w=80&h=24&exec_id=" + "g" * 64, "exec_id"),
    ("POST", "execute_resize?w=80&h=24&exec_id=abc", "exec_id"),
    ("POST", "execute_resize?w=0&h=24&exec_id=" + "a" * 64, "w"),
    ("POST", "resize?w=80", "h"),
    ("POST", "resize?w=80&h=", "h"),
    ("POST", "resize?w=80&h=0", "h"),
    ("POST", "resize?w=65536&h=24", "w"),
    ("POST", "resize?w=80&h=24&colour=red", "colour"),
    ("GET", "logs?stdout=maybe", "stdout"),
    ("GET", "logs?since=yesterday", "since"),
    ("GET", "logs?since=2026-13-31%2012:00:00,5", "since"),
    ("GET", "logs?colour=red", "colour"),
    ("GET", "top?ps_args=%3Brm%20-rf", "ps_args: ';rm' selects nothing"),
    ("GET", "top?ps_args=$(reboot)", "ps_args"),
    ("GET", "top?ps_args=-o%20pid,environ", "ps_args: 'environ' is not a column. Give process ids,"),
    ("GET", "top?ps_args=-eouid=PID%20-oargs%20f%20e%20ww", "ps_args"),
    ("GET", "top?ps_args=ef", "ps_args"),
    ("GET", "top?ps_args=" + "a" * 300, "ps_args"),
]


@pytest.mark.parametrize(("verb", "path", "word"), BAD)
def test_a_bad_argument_is_named_and_reaches_no_host(api, placed, host_up, compute, verb, path, word):
    reply = api.send(verb, f"/v1/containers/{placed().uuid}/{path}")
    assert reply.refusal == (400, "schema-validation-error")
    assert word in reply.error["detail"]
    assert compute.sent == []


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("stop", {"timeout": True}),
        ("stop", {"timeout": -1}),
        ("stop", {"timeout": 1.5}),
        ("stop", {"timeout": 10**200}),
        ("stop", {"timeout": None}),
        ("kill", {"signal": 9}),
        ("kill", {"signal": None}),
        ("execute", {"command": ["ls"]}),
        ("execute", {"command": 7}),
    ],
)
def test_a_bad_body_reaches_no_host(api, placed, host_up, compute, action, body):
    reply = api.post(f"/v1/containers/{placed().uuid}/{action}", body)
    assert reply.refusal == (400, "schema-validation-error")
    assert compute.sent == []


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("command=%22open", "quotes"),
        ("command=%20", "empty"),
        ("command=%20&run=False", "empty"),
    ],
)
def test_commands_that_cannot_be_run(api, placed, host_up, compute, query, word):
    reply = api.post(f"/v1/containers/{placed().uuid}/execute?{query}")
    assert reply.refusal == (400, "invalid-value")
    assert word in reply.error["detail"]
    assert compute.sent == []


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [("POST", "start", "Error"), ("POST", "reboot", "Error"), ("GET", "logs", "Error"), ("POST", "stop", "Running")],
)
def test_a_container_without_a_host(api, placed, compute, verb, path, status):
    reply = api.send(verb, f"/v1/containers/{placed(status, host=None).uuid}/{path}")
    assert reply.refusal == (409, "conflict")
    assert "on no host" in reply.error["detail"]
    assert compute.sent == []


# Terminals.

EXEC_ID = "ab" * 32

# (verb, path and arguments, key in the table of statuses, message, its arguments, answer)
TERMINALS = [
    ("GET", "attach?colour=red", "attach", "attach", {}, "ws://proxy/?token=1"),
    ("POST", "resize?w=80&h=24", "resize", "resize_terminal", {"width": 80, "height": 24, "exec_id": None}, None),
    (
        "POST",
        f"execute_resize?w=80&h=24&exec_id={EXEC_ID}",
        "execute_resize",
        "resize_terminal",
        {"width": 80, "height": 24, "exec_id": EXEC_ID},
        None,
    ),
    *(
        (
            "POST",
            f"execute?command=sh%20-l&run=False{query}",
            "execute",
            "prepare_exec",
            {"command": ["sh", "-l"], "interactive": interactive},
            {
                "output": None,
                "exit_code": None,
                "exec_id": EXEC_ID,
                "proxy_url": f"ws://proxy/?token=1&exec_id={EXEC_ID}",
            },
        )
        for query, interactive in (("&interactive=True", True), ("", False))
    ),
]


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize(("verb", "path", "key", "message", "told", "answer"), TERMINALS)
def test_terminals(api, placed, host_up, compute, verb, path, key, message, told, answer, status):
    container = placed(str(status), interactive=True)
    reply = api.send(verb, f"/v1/containers/{container.uuid}/{path}")
    if status in ALLOWED[key]:
        assert (reply.status, reply.json) == (200, answer)
        assert compute.sent == [(message, container.uuid, told)]
    else:
        assert reply.refusal == (409, "invalid-state-exception")
        assert compute.sent == []


def test_attach_needs_an_interactive_container(api, placed, host_up, compute):
    reply = api.get(f"/v1/containers/{placed(interactive=False).uuid}/attach")
    assert reply.refusal == (400, "no-interactive-flag")
    assert compute.sent == []


# The order in which a request is looked at: form, existence, policy, status.


def test_order_of_the_checks(api, placed, application):
    foreign, stopped = placed(project_id="other"), placed("Stopped")
    path = "/v1/containers/{}/stop?timeout={}".format
    assert api.post(path(foreign.uuid, "x")).status == 400
    assert api.post(path(foreign.uuid, "1")).status == 404
    assert api.post(path(stopped.uuid, "x")).status == 400
    assert api.post(path(stopped.uuid, "1")).status == 409


# Rename, which ended with 1.13.


@pytest.mark.parametrize("status", ["Creating", "Running", "Deleting", "Dead"])
def test_rename(api, placed, status):
    container = placed(status, name="old-name", host=None)
    reply = api.at("1.13").post(f"/v1/containers/{container.uuid}/rename?name=new-name")
    assert (reply.status, reply.json["name"]) == (200, "new-name")
    assert api.get("/v1/containers/new-name").json["uuid"] == container.uuid
    again = api.at("1.1").post(f"/v1/containers/{container.uuid}/rename", {"name": "new-name"})
    assert again.refusal == (409, "conflict")


@pytest.mark.parametrize("body", [{}, {"name": None}, {"name": "a"}, {"name": "ab", "x": 1}])
def test_a_bad_name_changes_nothing(api, placed, body):
    container = placed(name="old-name")
    reply = api.at("1.13").post(f"/v1/containers/{container.uuid}/rename", body)
    assert reply.refusal == (400, "schema-validation-error")
    assert db.get(container.uuid)["name"] == "old-name"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", {}),
        ("image=other:1&image_driver=docker", {"rebuild": {"image": "other:1", "image_driver": "docker"}}),
        ("image=&image_driver=&colour=red", {}),
        ("image_driver=docker", {"rebuild": {"image": "zun-demo", "image_driver": "docker"}}),
    ],
)
@pytest.mark.parametrize("status", ["Running", "Stopped"])
def test_rebuild(api, placed, compute, query, wanted, status):
    """The row names the image of the object that exists; that of the rebuild waits in its request."""
    request = {"run": True, "hints": {}, "rebuild": {"image": "of-one-before", "image_driver": "docker"}}
    container = placed(status, image="zun-demo", image_driver="docker", request=request)
    assert api.post(f"/v1/containers/{container.uuid}/rebuild?{query}").status == 202
    row = db.get(container.uuid)
    assert (row["status"], row["image"], row["image_driver"]) == ("Rebuilding", "zun-demo", "docker")
    assert row["request"] == {"run": status == "Running", "hints": {}, **wanted}
    assert compute.sent == [("rebuild", container.uuid, {})]


def test_rebuild_of_a_glance_row_names_the_driver_to_give(api, placed, compute):
    container = placed(image_driver="glance")
    path = f"/v1/containers/{container.uuid}"
    assert api.get(path).json["image_driver"] == "glance"
    assert api.post(f"{path}/rebuild", {}).refusal == (400, "validation-error")
    assert compute.sent == []
    assert api.post(f"{path}/rebuild", {"image_driver": "docker"}).status == 202
    assert db.get(container.uuid)["request"]["rebuild"]["image_driver"] == "docker"


@pytest.mark.parametrize("driver", ["colour", "glance"])
def test_rebuild_by_a_driver_that_is_none(api, placed, compute, driver):
    container = placed()
    reply = api.post(f"/v1/containers/{container.uuid}/rebuild", {"image_driver": driver, "image": "other"})
    assert reply.refusal == (400, "validation-error")
    assert f"image_driver: '{driver}' is none of docker" in reply.error["detail"]
    assert (db.get(container.uuid)["status"], db.get(container.uuid)["image"]) == ("Running", "zun-demo")
    assert compute.sent == []


@pytest.mark.parametrize("command", ['"sh" "-c" "echo "it\'s""', "sh -c 'open"])
def test_lost_quotes_name_the_client_as_the_cause(api, placed, host_up, command):
    """The first as ``zun exec web sh -c`` sends an echo of a quoted ``it's``."""
    reply = api.post(f"/v1/containers/{placed().uuid}/execute?command={urllib.parse.quote(command)}")
    assert reply.refusal == (400, "invalid-value")
    assert "zun exec" in reply.error["detail"] and "quotes" in reply.error["detail"]
