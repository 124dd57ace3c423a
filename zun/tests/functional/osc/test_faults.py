# SPDX-License-Identifier: Apache-2.0
"""Defects of python-zunclient that these commands do not have, against a real HTTP server."""

import base64
import io
import tarfile
import types
from pathlib import Path

import pytest
from keystoneauth1 import noauth, session
from openstack import connection
from osc_lib import exceptions
from zunclient import api_versions
from zunclient.v1 import client as zun_client

from zun.osc import (
    aggregates,
    capsules,
    containers,
    each,
    groups,
    hosts,
    images,
    networks,
    questions,
    registries,
    volumes,
    waiting,
)
from zun.tests.functional.osc.recorder import Asked, serving

BROKEN = (409, {"errors": [{"title": "it is paused", "detail": "it is paused", "status": 409}]})
C = {"uuid": "c-1", "name": "web", "status": "Running", "task_state": None, "status_reason": None, "addresses": {}}


class Manager(types.SimpleNamespace):
    """The clients of the services."""


def execute(command, server, *argv, version="1.40"):
    """Run a command class as the shell does; returns its exit status and what it printed."""
    auth = noauth.NoAuth(endpoint=server.endpoint)
    client = zun_client.Client(session=session.Session(auth=auth), api_version=api_versions.APIVersion(version))
    app = types.SimpleNamespace(stdout=io.StringIO(), client_manager=Manager(container=client))
    instance = command(app, None)
    status = instance.run(instance.get_parser("openstack").parse_args(argv))
    return status, app.stdout.getvalue()


ONE = [
    (each.StartContainer, [], "POST", "/start"),
    (each.StopContainer, [], "POST", "/stop?timeout=10"),
    (each.RestartContainer, ["--timeout", "3"], "POST", "/reboot?timeout=3"),
    (each.PauseContainer, [], "POST", "/pause"),
    (each.UnpauseContainer, [], "POST", "/unpause"),
    (each.KillContainer, ["--signal", "USR1"], "POST", "/kill?signal=USR1"),
    (each.RebuildContainer, ["--image", "b"], "POST", "/rebuild?image=b"),
    (each.DeleteContainer, ["--force"], "DELETE", "?force=True&stop=False&all_projects=False"),
]


@pytest.mark.parametrize(("command", "options", "method", "path"), ONE)
def test_one_failed_container_exits_1_and_the_next_is_served(capsys, command, options, method, path):
    answers = {
        (method, f"/v1/containers/a{path}"): BROKEN,
        (method, f"/v1/containers/b{path}"): (202, None),
    }
    with serving(answers) as server:
        status, printed = execute(command, server, *options, "a", "b")
        assert [each.path for each in server.asked_of_v1] == [f"/v1/containers/{name}{path}" for name in "ab"]
        assert execute(command, server, *options, "b")[0] == 0

    assert status == 1
    told = capsys.readouterr().err
    assert "container a failed: " in told and "it is paused" in told
    assert " container b has been accepted." in printed and "container a" not in printed


@pytest.mark.parametrize(
    ("command", "argv", "asked"),
    [
        (each.NetworkAttach, ["c", "--network", "n"], ("POST", "/v1/containers/c/network_attach?network=n")),
        (each.NetworkDetach, ["c", "--port", "p"], ("POST", "/v1/containers/c/network_detach?port=p")),
        (each.CommitContainer, ["c", "h:5000/a"], ("POST", "/v1/containers/c/commit?repository=h%3A5000%2Fa")),
        (each.CommitContainer, ["c", "a:1"], ("POST", "/v1/containers/c/commit?repository=a&tag=1")),
        (each.DeleteImage, ["i"], ("DELETE", "/v1/images/i")),
        (each.DeleteQuota, ["p"], ("DELETE", "/v1/quotas/p")),
        (each.DeleteRegistry, ["r"], ("DELETE", "/v1/registries/r")),
        (each.DeleteCapsule, ["p"], ("DELETE", "/v1/capsules/p")),
        (each.DeleteService, ["h", "zun-compute"], ("DELETE", "/v1/services?host=h&binary=zun-compute")),
    ],
)
def test_one_of_another_kind(capsys, command, argv, asked):
    with serving({asked: BROKEN}) as server:
        assert execute(command, server, *argv)[0] == 1
        assert "it is paused" in capsys.readouterr().err
        server.answers[asked] = (202, {"uuid": "i-9"})
        status, printed = execute(command, server, *argv)
    assert (status, "has been accepted." in printed) == (0, True)
    assert [(each.method, each.path) for each in server.asked_of_v1] == [asked] * 2
    if command is each.CommitContainer:
        assert "The image is i-9." in printed


@pytest.mark.parametrize(
    ("command", "noun"),
    [
        (networks.DeleteNetwork, "network"),
        (groups.DeleteGroup, "group"),
        (aggregates.DeleteAggregate, "aggregate"),
        (volumes.DeleteVolume, "volume"),
    ],
)
def test_of_several_to_delete_each_has_its_turn(capsys, command, noun):
    with serving({("DELETE", f"/v1/{noun}s/b"): (204, None)}, max_version="1.43") as server:
        assert execute(command, server, "a", "b") == (1, "")
        assert execute(command, server, "b") == (0, "")
    assert [each.path for each in server.asked_of_v1] == [f"/v1/{noun}s/{ident}" for ident in "abb"]
    assert f"Request to delete {noun} a failed: " in capsys.readouterr().err


@pytest.mark.parametrize("command", [each.NetworkAttach, each.NetworkDetach])
def test_a_network_must_be_named(capsys, command):
    with serving() as server:
        assert execute(command, server, "c")[0] == 1
    assert "--network" in capsys.readouterr().err and server.asked_of_v1 == []


@pytest.mark.parametrize(("version", "sent"), [("1.40", "1.14"), ("1.10", "1.10")])
@pytest.mark.parametrize(
    ("command", "action"),
    [(each.AddSecurityGroup, "add_security_group"), (each.RemoveSecurityGroup, "remove_security_group")],
)
def test_security_group_commands_send_microversion_1_14_at_most(command, action, version, sent):
    """Microversion 1.14 is the last one that offers these actions."""
    path = f"/v1/containers/c/{action}?name=web"
    with serving({("POST", path): (202, None)}) as server:
        assert execute(command, server, "c", "web", version=version)[0] == 0
    assert server.asked_of_v1 == [Asked("POST", path, sent, None)]


def test_top():
    answer = {"Titles": ["PID", "CMD"], "Processes": [["1", "init"], ["12345", "sleep 9"]]}
    with serving({("GET", "/v1/containers/c/top?ps_args=1+12345"): (200, answer)}) as server:
        status, printed = execute(containers.TopContainer, server, "c", "--pid", "1", "--pid", "12345")
    assert (status, printed) == (0, "PID    CMD\n1      init\n12345  sleep 9\n")


@pytest.mark.parametrize(
    ("command", "noun", "argv", "query"),
    [
        (containers.ListContainer, "containers", ["--limit", "2"], "limit=2"),
        (
            containers.ListContainer,
            "containers",
            ["--limit", "2", "--status", "Running", "--name", "a b", "--all-projects"],
            "all_projects=1&limit=2&name=a+b&status=Running",
        ),
        (registries.ListRegistry, "registries", ["--limit", "1", "--domain", "d"], "limit=1&domain=d"),
    ],
)
def test_a_list_with_a_limit_keeps_its_filters(command, noun, argv, query):
    with serving({("GET", f"/v1/{noun}?{query}"): (200, {noun: [], "next": None})}) as server:
        assert execute(command, server, *argv)[0] == 0
    assert [each.path for each in server.asked_of_v1] == [f"/v1/{noun}?{query}"]


def test_every_page_up_to_the_limit_has_the_filters():
    first, second = "/v1/containers?limit=2&name=web", "/v1/containers?limit=2&name=web&marker=c-1"
    answers = {
        ("GET", first): (200, {"containers": [C], "next": f"http://elsewhere{second}"}),
        ("GET", second): (200, {"containers": [{**C, "uuid": "c-2"}], "next": None}),
    }
    with serving(answers) as server:
        _, printed = execute(containers.ListContainer, server, "--limit", "2", "--name", "web", "-f", "value")
    assert [line.split()[0] for line in printed.splitlines()] == ["c-1", "c-2"]


H = {"uuid": "h-1", "hostname": "one", "mem_total": 1, "cpus": 1, "disk_total": 1}


@pytest.mark.parametrize(
    ("command", "path", "item"),
    [
        (containers.ListContainer, "containers", C),
        (capsules.ListCapsule, "capsules/", C),
        (images.ListImage, "images/", {"uuid": "i-1", "repo": "a", "tag": "1"}),
        (registries.ListRegistry, "registries", {"uuid": "r-1", "domain": "d"}),
        (hosts.ListHost, "hosts/", H),
    ],
)
def test_a_list_without_a_limit_has_every_page(command, path, item):
    noun = path.rstrip("/")
    first, second = f"/v1/{path}", f"/v1/{noun}?limit=1&marker={item['uuid']}"
    answers = {
        ("GET", first): (200, {noun: [item], "next": f"http://elsewhere{second}"}),
        ("GET", second): (200, {noun: [{**item, "uuid": "x-2"}], "next": None}),
    }
    with serving(answers) as server:
        status, printed = execute(command, server, "-f", "value", "-c", "uuid")
    assert (status, printed.split()) == (0, [item["uuid"], "x-2"])


def test_a_name_with_a_slash_is_searched_for():
    path = "/v1/images/lib%2Fbusybox/search?exact_match=False"
    with serving({("GET", path): (200, [{"name": "lib/busybox"}])}) as server:
        status, printed = execute(images.SearchImage, server, "lib/busybox")
    assert status == 0 and "lib/busybox" in printed


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (aggregates.SetAggregate, ["--no-zone", ""]),
        (groups.ShowGroup, [""]),
        (hosts.AuditHost, [""]),
        (hosts.ShowHostTopology, [""]),
        (images.SearchImage, [""]),
        (images.ShowImage, [""]),
        (networks.ShowNetwork, [""]),
        (questions.ExplainContainer, [""]),
    ],
)
def test_an_empty_name_asks_for_nothing_else(command, argv):
    with serving({}, max_version="1.42") as server, pytest.raises(exceptions.CommandError, match="names nothing"):
        execute(command, server, *argv)
    assert server.asked_of_v1 == []


def test_words_of_a_command_arrive_as_they_were_typed():
    path = "/v1/containers/c/execute?command=sh+-c+%27echo+%22a+b%22%27"
    with serving({("POST", path): (200, {"output": "a b", "exit_code": 3})}) as server:
        assert execute(containers.ExecContainer, server, "c", "sh", "-c", 'echo "a b"') == (3, "a b")


def test_a_health_check_with_a_comma():
    with serving({("POST", "/v1/containers"): (202, C)}) as server:
        assert execute(containers.CreateContainer, server, "--healthcheck", "cmd=a,b,retries=2", "busybox")[0] == 0
    assert server.asked_of_v1[0].body["healthcheck"] == {"cmd": "a,b", "retries": 2}
    assert server.asked_of_v1[0].version == "1.40"


@pytest.mark.parametrize(("version", "there"), [("1.2", False), ("1.3", True)])
def test_create_at_an_old_microversion(version, there):
    with serving({("POST", "/v1/containers"): (202, C)}) as server:
        assert execute(containers.CreateContainer, server, "busybox", version=version)[0] == 0
    assert ("auto_remove" in server.asked_of_v1[0].body) is there


CREATED = {("POST", "/v1/containers"): (202, {**C, "status": "Creating"})}
RUN = {("POST", "/v1/containers?run=true"): (202, {**C, "status": "Creating"})}


@pytest.mark.parametrize(
    ("command", "answer", "status"),
    [
        (containers.CreateContainer, CREATED, "Created"),
        (containers.RunContainer, RUN, "Running"),
        (containers.RunContainer, RUN, "Stopped"),
    ],
)
def test_waiting_shows_what_came_of_it(command, answer, status):
    addresses = {"n-1": [{"addr": "10.1.0.2", "version": 4}]}
    shown = {("GET", "/v1/containers/c-1"): (200, {**C, "status": status, "addresses": addresses})}
    with serving(answer | shown) as server:
        exit_status, printed = execute(command, server, "--wait", "-f", "json", "busybox")
    assert exit_status == 0 and f'"status": "{status}"' in printed
    assert '"addresses": "10.1.0.2"' in printed  # as show has them


@pytest.mark.parametrize("command", [containers.CreateContainer, containers.RunContainer])
@pytest.mark.parametrize("option", ["--wait", "--interactive"])
def test_waiting_tells_a_failure(command, option):
    if command is containers.CreateContainer and option == "--interactive":
        option = "--wait"
    failed = {("GET", "/v1/containers/c-1"): (200, {**C, "status": "Error", "status_reason": "no room"})}
    with serving(CREATED | RUN | failed) as server, pytest.raises(exceptions.CommandError, match="no room"):
        execute(command, server, option, "busybox")


LOG = ("GET", "/v1/containers/c-1/logs?stdout=True&stderr=True&tail=10")


def test_a_run_tells_exit_code_and_log_of_a_failure(capsys):
    shown = {**C, "status": "Stopped", "status_detail": "Exited(3) 2 seconds ago "}
    answers = {("GET", "/v1/containers/c-1"): (200, shown), LOG: (200, "one\nno such file: x\n")}
    with serving(RUN | answers) as server:
        status, printed = execute(containers.RunContainer, server, "--wait", "-f", "json", "busybox", "false")
        told = capsys.readouterr().err
        assert (status, '"status": "Stopped"' in printed) == (1, True)
        assert "c-1 ended with exit code 3." in told and told.endswith("  one\n  no such file: x\n")
        server.answers["GET", "/v1/containers/c-1"] = (200, {**shown, "status_detail": "Exited(0) 2 seconds ago "})
        assert execute(containers.RunContainer, server, "--wait", "busybox", "true")[0] == 0
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("log", [(200, "no such file: x\n"), BROKEN])
def test_a_run_ends_in_a_loop_of_restarts(monkeypatch, log):
    monkeypatch.setattr(waiting, "PATIENCE", 0.3)
    shown = {**C, "status": "Restarting", "status_reason": "Its command ended with exit code 1 and ..."}
    loop = {("GET", "/v1/containers/c-1"): (200, shown), LOG: log}
    with serving(RUN | loop) as server, pytest.raises(exceptions.CommandError) as caught:
        execute(containers.RunContainer, server, "--wait", "--restart", "always", "busybox", "false")
    for said in ("exit code 1", "appcontainer delete --stop c-1", "no such file" if log[0] == 200 else "it is paused"):
        assert said in str(caught.value)


def test_several_are_asked_before_one_is_waited_for():
    names = ("a", "b", "c")
    asked = {("DELETE", f"/v1/containers/{n}?force=False&stop=True&all_projects=False"): (204, None) for n in names}
    shown = {("GET", f"/v1/containers/{n}"): (200, {**C, "uuid": f"u-{n}"}) for n in names}
    with serving(asked | shown) as server:
        status, printed = execute(each.DeleteContainer, server, "--stop", "--wait", *names)
    assert (status, printed.count("carried out")) == (0, 3)
    methods = [one.method for one in server.asked_of_v1]
    assert methods == ["GET", "DELETE"] * 3 + ["GET"] * 3


def test_a_refused_deletion_is_not_waited_for(capsys):
    gone = {
        ("GET", "/v1/containers/b"): (200, {**C, "uuid": "u-b"}),
        ("DELETE", "/v1/containers/b?force=False&stop=False&all_projects=False"): (204, None),
    }
    with serving(gone) as server:
        status, printed = execute(each.DeleteContainer, server, "--wait", "a", "b")
    assert (status, printed) == (1, "Request to delete container b has been carried out.\n")
    assert "delete container a failed" in capsys.readouterr().err


def test_interactive_run_that_ended_at_once_prints_its_logs():
    logs = "/v1/containers/c-1/logs?stdout=True&stderr=True"
    ended = {("GET", "/v1/containers/c-1"): (200, {**C, "status": "Stopped"}), ("GET", logs): (200, "done\n")}
    with serving(RUN | ended) as server:
        status, printed = execute(containers.RunContainer, server, "--interactive", "busybox", "true")
    assert status == 0 and printed.startswith("done\n")
    body = server.asked_of_v1[0].body
    assert (body["interactive"], body["tty"]) == (True, True)


def test_a_stop_and_a_delete_can_be_waited_for():
    stopped = {
        ("POST", "/v1/containers/web/stop?timeout=10"): (202, None),
        ("GET", "/v1/containers/web"): (200, {**C, "status": "Stopped"}),
        ("DELETE", "/v1/containers/web?force=False&stop=False&all_projects=False"): (204, None),
    }
    with serving(stopped) as server:
        assert execute(each.StopContainer, server, "--wait", "web") == (
            0,
            "Request to stop container web has been carried out.\n",
        )
        status, printed = execute(each.DeleteContainer, server, "--wait", "web")  # and c-1 is no more
    assert (status, printed) == (0, "Request to delete container web has been carried out.\n")
    assert server.asked_of_v1[-1].path == "/v1/containers/c-1"


@pytest.mark.parametrize("shown", [{}, {("GET", "/v1/containers/web"): (200, {**C, "status": "Deleted"})}])
def test_a_stop_can_be_waited_for_of_one_that_removes_itself(shown):
    with serving({("POST", "/v1/containers/web/stop?timeout=10"): (202, None), **shown}) as server:
        assert execute(each.StopContainer, server, "--wait", "web")[0] == 0


IMAGE = {"uuid": "i-1", "repo": "a", "tag": "latest", "image_id": None, "size": None}


@pytest.mark.parametrize(("status", "detail"), [("Available", None), ("Error", "no such image: a")])
def test_a_pull_can_be_waited_for(status, detail):
    answers = {
        ("POST", "/v1/images/"): (202, IMAGE),
        ("GET", "/v1/images/i-1"): (200, {**IMAGE, "status": status, "status_detail": detail}),
    }
    with serving(answers, max_version="1.42") as server:
        if detail:
            with pytest.raises(exceptions.CommandError, match=detail):
                execute(images.PullImage, server, "--wait", "a", "h1")
        else:
            exit_status, printed = execute(images.PullImage, server, "--wait", "-f", "json", "a", "h1")
            assert exit_status == 0 and '"status": "Available"' in printed
    assert [each.version for each in server.asked_of_v1] == ["1.40", "1.42"] + ["1.42"] * (detail is None)


def test_a_pull_from_a_service_that_does_not_tell_is_not_begun():
    with (
        serving({("POST", "/v1/images/"): (202, IMAGE)}, max_version="1.40") as server,
        pytest.raises(exceptions.CommandError, match=r"--wait needs .* 1\.42"),
    ):
        execute(images.PullImage, server, "--wait", "a", "h1")
    assert server.asked_of_v1 == []


def test_image_show_prints_pull_failure_with_status_option():
    failed = {**IMAGE, "status": "Error", "status_detail": "no such image: a"}
    with serving({("GET", "/v1/images/i-1"): (200, failed)}, max_version="1.42") as server:
        assert "no such image: a" in execute(images.ShowImage, server, "--status", "i-1")[1]
        execute(images.ShowImage, server, "i-1")
    assert [each.version for each in server.asked_of_v1] == ["1.42", "1.40"]


def packed(*members):
    """An archive as the API gives it; a member is a name and what it holds, or a name, a kind and where it links to."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, *held in members:
            info = tarfile.TarInfo(name)
            if len(held) == 1:
                info.size = len(held[0])
                tar.addfile(info, io.BytesIO(held[0]))
            else:
                info.type, info.linkname = held
                tar.addfile(info)
    return {"data": base64.b64encode(stream.getvalue()).decode(), "stat": {}}


FROM = ("GET", "/v1/containers/web/get_archive?path=%2Fa")


def test_what_is_copied_keeps_its_links(tmp_path):
    answer = packed(("f", b"hi"), ("zone", tarfile.SYMTYPE, "/usr/share/zoneinfo"), ("g", tarfile.LNKTYPE, "f"))
    with serving({FROM: (200, answer)}) as server:
        assert execute(containers.CopyContainer, server, "web:/a", str(tmp_path / "to"))[0] == 0
    assert (tmp_path / "to" / "g").read_bytes() == b"hi"
    assert (tmp_path / "to" / "zone").readlink() == Path("/usr/share/zoneinfo")


@pytest.mark.parametrize(
    "members",
    [
        [("../f", b"x")],
        [("link", tarfile.SYMTYPE, "../f"), ("link", b"x")],
        [("link", tarfile.SYMTYPE, ".."), ("link/f", b"x")],
        [("link", tarfile.LNKTYPE, "../f"), ("link", b"x")],
    ],
    ids=["up", "behind-a-link", "in-a-linked-folder", "same-file"],
)
def test_what_is_copied_stays_where_it_was_wanted(tmp_path, members):
    (tmp_path / "f").write_bytes(b"mine")
    with (
        serving({FROM: (200, packed(*members))}) as server,
        pytest.raises(exceptions.CommandError, match="/a of container web cannot be written: "),
    ):
        execute(containers.CopyContainer, server, "web:/a", str(tmp_path / "to"))
    assert (tmp_path / "f").read_bytes() == b"mine"


def test_a_copy_names_a_container():
    with serving({}) as server, pytest.raises(exceptions.CommandError, match="Neither side is a container's"):
        execute(containers.CopyContainer, server, "a", "b")


@pytest.mark.parametrize(
    ("command", "argv"),
    [(containers.AddFloatingIP, ["web", "192.0.2.1"]), (containers.RemoveFloatingIP, ["192.0.2.1"])],
)
def test_without_neutron_floating_addresses_say_what_there_is(monkeypatch, command, argv):
    with serving({("GET", "/v1/containers/web"): (200, C)}) as server:
        auth = noauth.NoAuth(endpoint=server.endpoint)
        cloud = connection.Connection(session=session.Session(auth=auth), network_endpoint_override=server.endpoint)
        monkeypatch.setattr(Manager, "network", property(lambda self: cloud.network), raising=False)
        with pytest.raises(exceptions.CommandError, match=r"Neutron's, which answered: .* --expose-port"):
            execute(command, server, *argv)


def test_what_wait_of_delete_says():
    said = " ".join(each.DeleteContainer(None, None).get_parser("delete").format_help().split())
    assert "--wait Wait until the containers are gone." in said


@pytest.mark.parametrize("width", [80, 60])
def test_tables_fit_into_the_terminal(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    row = {**C, "uuid": "4ad32a94-1d42-4ee9-bd5f-3f0d0ac3ee0a", "name": "alpha-12-container"}
    row |= {"image": "registry.example:5000/team/app:1.2", "ports": [], "links": [{"href": "x" * 150, "rel": "self"}]}
    answers = {
        ("GET", "/v1/containers"): (200, {"containers": [row] * 2, "next": None}),
        ("GET", "/v1/containers/web?all_projects=False"): (200, row),
    }
    answers["GET", "/v1/containers/"] = answers["GET", "/v1/containers"]
    with serving(answers) as server:
        listed = execute(containers.ListContainer, server)[1]
        shown = execute(containers.ShowContainer, server, "web")[1]
        whole = execute(containers.ListContainer, server, "-f", "json")[1]
    for printed in (listed, shown):
        assert max(map(len, printed.splitlines())) <= width
        assert row["uuid"] in printed and "None" not in printed
    assert '"task_state": null' in whole
