# SPDX-License-Identifier: Apache-2.0
"""The stock command line client against the API on a real port: what people will type."""

import json
import logging

import pytest

from zun.db import containers as db
from zun.tests.http_servers import serving_application

openstack = pytest.importorskip("openstackclient.shell")
pytest.importorskip("zunclient")


class Port:
    """A port of loopback that answers with the application of the present test.

    One for all tests: the client, run inside this process, remembers the endpoint of its first command.
    """

    application = None

    def __call__(self, environ, start_response):
        return self.application(environ, start_response)


@pytest.fixture(scope="module")
def port():
    made = Port()
    with serving_application(made) as made.url:
        yield made


@pytest.fixture
def endpoint(port, application):
    port.application = application
    return port.url


@pytest.fixture
def root_logger():
    """The client sets it up for a program of its own, with a handler on the output of this test."""
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]


@pytest.fixture
def run(endpoint, capsys, root_logger):
    """Runs ``openstack appcontainer ...`` as the administrator that noauth makes of everybody. Gives its output."""

    def command(*argv, status=0, version=None):
        options = ["--os-auth-type", "none", "--os-endpoint", endpoint]
        if version:
            options += ["--os-container-api-version", version]
        capsys.readouterr()
        result = openstack.main([*options, "appcontainer", *argv])
        captured = capsys.readouterr()
        assert result == status, captured.err
        return captured.out if status == 0 else captured.err

    return command


@pytest.fixture
def mine(placed):
    def make(status="Running", **fields):
        return placed(status, project_id="admin", **fields)

    return make


def test_create_and_look(run, scheduler):
    shown = json.loads(
        run(
            *("create", "--name", "web", "--cpu", "1.5", "--memory", "256", "--environment", "A=b", "--label", "c=d"),
            *("--restart", "on-failure:3", "--workdir", "/tmp", "--interactive", "--hostname", "www"),
            *("--healthcheck", "cmd=true,interval=5s,retries=2", "--auto-heal", "-f", "json", "busybox", "sleep", "9"),
        )
    )
    assert (shown["cpu"], shown["memory"], shown["command"]) == (1.5, "256", ["sleep", "9"])
    assert (shown["interactive"], shown["tty"], shown["auto_heal"]) == (True, True, True)
    assert shown["restart_policy"] == {"Name": "on-failure", "MaximumRetryCount": "3"}
    assert shown["healthcheck"] == {"test": "true", "interval": 5, "retries": 2}
    assert scheduler.sent == [("create", shown["uuid"])]
    listed = json.loads(run("list", "-f", "json"))
    assert [(row["uuid"], row["name"], row["status"]) for row in listed] == [(shown["uuid"], "web", "Creating")]
    again = json.loads(run("show", "web", "-f", "json"))
    assert (again["uuid"], again["environment"], again["labels"]) == (shown["uuid"], {"A": "b"}, {"c": "d"})


def test_run_at_an_old_version(run):
    shown = json.loads(run("run", "-f", "json", "busybox", "echo", "two words", version="1.19"))
    assert shown["command"] == ["echo", "two words"]


def test_list_options(run, mine, placed):
    for number in range(3):
        mine(name=f"c{number}", image="odd" if number % 2 else "even")
    placed(name="theirs")

    def names(*argv):
        return [row["name"] for row in json.loads(run("list", "-f", "json", *argv))]

    assert names() == ["c0", "c1", "c2"]
    assert names("--limit", "2") == ["c0", "c1"]
    assert names("--image", "even") == ["c0", "c2"]
    assert names("--sort-key", "name", "--sort-dir", "desc") == ["c2", "c1", "c0"]
    assert names("--all-projects") == ["c0", "c1", "c2", "theirs"]
    assert "colour" in run("list", "--sort-key", "colour", status=1)


@pytest.mark.parametrize(
    ("argv", "status", "sent"),
    [
        (["start"], "Stopped", ("start", {})),
        (["stop"], "Running", ("stop", {"timeout": 10})),
        (["stop", "--timeout", "3"], "Running", ("stop", {"timeout": 3})),
        (["restart"], "Running", ("reboot", {"timeout": 10})),
        (["pause"], "Running", ("pause", {})),
        (["unpause"], "Paused", ("unpause", {})),
        (["kill"], "Running", ("kill", {"signal": None})),
        (["kill", "--signal", "HUP"], "Running", ("kill", {"signal": "SIGHUP"})),
        (["delete"], "Stopped", ("delete", {"force": False, "stop_timeout": None})),
        (["delete", "--stop"], "Running", ("delete", {"force": False, "stop_timeout": 10})),
        (["delete", "--force"], "Running", ("delete", {"force": True, "stop_timeout": None})),
        (["set", "--cpu", "2", "--memory", "128"], "Running", ("update", {"cpu": 2.0, "memory": 128})),
    ],
)
def test_actions(run, mine, host_up, compute, argv, status, sent):
    container = mine(status, name="web")
    run(*argv, "web")
    assert compute.sent == [(sent[0], container.uuid, sent[1])]


def test_rename_and_auto_heal(run, mine):
    mine(name="old-name")
    run("set", "--name", "new-name", "--auto-heal", "old-name")
    assert json.loads(run("show", "new-name", "-f", "json"))["auto_heal"] is True


def test_looking_inside(run, mine, host_up, compute):
    mine(name="web")
    assert run("logs", "web", "--tail", "5", "--timestamps").strip() == "one\ntwo"
    assert "CPU %" in run("stats", "web")
    run("exec", "web", "echo", "two words", status=3)  # the command's exit code becomes the client's
    assert [(method, arguments) for method, _, arguments in compute.sent] == [
        ("logs", {"stdout": True, "stderr": True, "timestamps": True, "tail": "5", "since": None}),
        ("stats", {}),
        ("execute", {"command": ["echo", "two words"]}),
    ]


def test_refusals_reach_the_user(run, mine):
    mine("Paused", name="web")
    assert "Cannot stop and delete container web (" in run("delete", "--stop", "web", status=1)
    assert "Container nobody could not be found" in run("show", "nobody", status=1)
    assert "Network private could not be found" in run("create", "--net", "network=private", "busybox", status=1)


def test_services_and_zones(run, host_up):
    def services():
        return json.loads(run("service", "list", "-f", "json"))

    (service,) = services()
    assert (service["Host"], service["Binary"], service["State"]) == ("host-1", "zun-compute", "up")
    run("service", "disable", "--reason", "broken", "host-1", "zun-compute")
    (service,) = services()
    assert (service["Disabled"], service["Disabled Reason"]) == (True, "broken")
    run("service", "enable", "host-1", "zun-compute")
    assert services()[0]["Disabled"] is False
    run("service", "forcedown", "host-1", "zun-compute")
    assert services()[0]["State"] == "down"
    assert json.loads(run("availability", "zone", "list", "-f", "json")) == [{"availability_zone": "nova"}]
    run("service", "delete", "host-1", "zun-compute")
    assert services() == []


def test_hosts(run, host_row):
    (host,) = json.loads(run("host", "list", "-f", "json"))
    assert (host["hostname"], host["mem_total"], host["cpus"]) == ("host-1", 3072, 8)
    assert json.loads(run("host", "show", "host-1", "-f", "json"))["uuid"] == host_row


def test_groups_from_the_command_line(run, placed):
    def shown(*argv):
        return json.loads(run(*argv, "-f", "json"))

    made = shown("group", "create", "--policy", "anti-affinity", "--max-per-host", "2", "web.front")
    assert (made["name"], made["policy"], made["rules"]) == ("web.front", "anti-affinity", "max_per_host=2")
    first = json.loads(run("create", "-f", "json", "--group", "web.front", "--hint", "label:disk=ssd", "busybox"))
    neighbour = placed(project_id="admin").uuid
    second = json.loads(run("run", "-f", "json", "--hint", f"group={made['uuid']},same_host={neighbour}", "busybox"))
    assert (first["group_uuid"], second["group_uuid"]) == (made["uuid"], made["uuid"])
    assert db.get(first["uuid"])["request"]["hints"] == {"group": made["uuid"], "label:disk": "ssd"}
    assert db.get(second["uuid"])["request"]["hints"] == {"group": made["uuid"], "same_host": [neighbour]}
    assert shown("group", "show", "web.front")["members"] == f"{first['uuid']}, {second['uuid']}"
    (listed,) = shown("group", "list")
    assert listed == {name: made[name] for name in ("uuid", "name", "policy", "rules")} | {
        "members": f"{first['uuid']}, {second['uuid']}"
    }
    assert "has 2 containers" in run("group", "delete", "web.front", status=1)
    assert "no group 'nobody'" in run("run", "--group", "nobody", "busybox", status=1)
    run("group", "create", "--policy", "affinity", "db")
    run("group", "create", "--policy", "soft-affinity", "cache")
    run("group", "delete", "db", "cache")
    assert [each["name"] for each in shown("group", "list", "--all-projects")] == ["web.front"]


def test_aggregates_from_the_command_line(run, host_row, host_up):
    def shown(*argv):
        return json.loads(run("aggregate", *argv, "-f", "json"))

    made = shown("create", "--zone", "south", "--property", "disk=ssd", "fast")
    assert (made["availability_zone"], made["metadata"]) == ("south", "availability_zone=south, disk=ssd")
    assert shown("add", "host", "fast", "host-1")["hosts"] == "host-1"
    assert json.loads(run("availability", "zone", "list", "-f", "json")) == [{"availability_zone": "south"}]
    assert "1 host" in run("aggregate", "delete", "fast", status=1)
    changed = shown("set", "--name", "slow", "--no-zone", "--property", "disk=hdd", "--property", "rack=3", "fast")
    assert (changed["name"], changed["availability_zone"], changed["metadata"]) == ("slow", None, "disk=hdd, rack=3")
    changed = shown("set", "--zone", "north", "--remove-property", "rack", "slow")
    assert changed["metadata"] == "availability_zone=north, disk=hdd"
    assert shown("show", "slow") == changed
    assert shown("list") == [
        {name: changed[name] for name in ("uuid", "name", "availability_zone", "hosts", "metadata")}
    ]
    assert shown("remove", "host", "slow", "host-1")["hosts"] == ""
    run("aggregate", "delete", made["uuid"])
    assert shown("list") == []
    assert "slow could not be found" in run("aggregate", "show", "slow", status=1)


def test_what_was_asked(run, mine):
    mine("Running", name="web")
    run("stop", "web")
    (action,) = json.loads(run("action", "list", "web", "-f", "json"))
    assert (action["action"], action["message"]) == ("stop", None)
    shown = json.loads(run("action", "show", "web", action["request_id"], "-f", "json"))
    assert (shown["action"], shown["events"]) == ("stop", [])


def test_quotas(run, mine):
    mine(cpu=1.5)
    assert json.loads(run("quota", "get", "admin", "-f", "json"))["cpu"] == 20
    assert "1.5" in run("quota", "get", "--usages", "admin", "-f", "json")
    assert json.loads(run("quota", "update", "--cpu", "1", "--memory", "-1", "admin", "-f", "json"))["cpu"] == 1
    assert "cpu: limit 1, in use 1.5" in run("create", "busybox", status=1)
    assert json.loads(run("quota", "default", "admin", "-f", "json"))["cpu"] == 20
    run("quota", "delete", "admin")
    assert json.loads(run("quota", "class", "update", "--containers", "2", "default", "-f", "json"))["containers"] == 2
    assert json.loads(run("quota", "class", "get", "default", "-f", "json"))["containers"] == 2
    run("create", "busybox")


def test_registries(run, configuration, mine):
    run("registry", "create", "--domain", "quay.io", "--name", "quay", "--username", "me")
    (registry,) = json.loads(run("registry", "list", "-f", "json"))
    assert (registry["name"], registry["domain"], registry["password"]) == ("quay", "quay.io", None)
    assert "auth_encryption_key" in run("registry", "update", "--password", "x", "quay", status=1)
    assert json.loads(run("registry", "update", "--username", "you", "quay", "-f", "json"))["username"] == "you"
    shown = json.loads(run("create", "--registry", "quay", "-f", "json", "busybox"))
    assert shown["registry_id"] == registry["uuid"]
    run("delete", "--force", shown["uuid"])
    run("registry", "delete", "quay")
    assert json.loads(run("registry", "list", "-f", "json")) == []


def test_images(run, host_row, host_up, compute):
    run("image", "pull", "lib/busybox:1", "host-1")
    (image,) = json.loads(run("image", "list", "-f", "json"))
    assert (image["repo"], image["tag"]) == ("lib/busybox", "1")
    assert json.loads(run("image", "show", image["uuid"], "-f", "json"))["host"] == "host-1"
    for name in ("busybox", "lib/busybox", "quay.io/lib/busybox"):
        assert f" {name} " in run("image", "search", name, "--exact-match")
    run("image", "delete", image["uuid"])
    assert [(method, arguments["host"]) for method, _, arguments in compute.sent] == [
        ("image_pull", "host-1"),
        *[("image_search", "host-1")] * 3,
        ("image_delete", "host-1"),
    ]
