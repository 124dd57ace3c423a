# SPDX-License-Identifier: Apache-2.0
"""``capsule logs`` against the API, the scheduler and a host in memory."""

import io
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st
from osc_lib import exceptions
from zunclient import exceptions as zun_exceptions

from zun.common import exceptions as zun_errors
from zun.db import containers as db
from zun.objects import Container
from zun.osc.capsule_logs import PART, Line, Log, Logs, lines_of, merged
from zun.tests.functional.capsules import member, settled, submit
from zun.tests.functional.cloud import cloud_of, machine
from zun.tests.functional.over_api import OPTIONS, administrator_of

cloud = cloud_of({"one": machine()}, compute__sync_container_state_interval=3600, **OPTIONS)
NEVER = {"restart_policy": {"Name": "no", "MaximumRetryCount": "0"}}


class Client:
    """Answers as python-zunclient does, from the API in memory."""

    def __init__(self, api):
        self._api = api
        self.capsules = self.containers = self
        self.asked = []

    def get(self, ident):
        found = self._answer(f"/v1/capsules/{ident}")
        return types.SimpleNamespace(**found)

    def logs(self, id, **query):
        self.asked.append(query)
        return self._answer(f"/v1/containers/{id}/logs?" + "&".join(f"{name}={value}" for name, value in query.items()))

    def _answer(self, path):
        reply = self._api.get(path)
        known = {400: zun_exceptions.BadRequest, 404: zun_exceptions.NotFound, 409: zun_exceptions.Conflict}
        for status, error in known.items():
            if reply.status == status:
                raise error(reply.error["detail"])
        assert reply.status == 200, reply.body
        return reply.json


@pytest.fixture
def client(cloud, context):
    return Client(administrator_of(cloud).in_project(context.project_id))


@pytest.fixture
def web(cloud, context):
    """Two containers of a capsule, first and second."""
    uuid = submit(cloud, context, *(member(1.0, name=f"capsule-web-{name}", **NEVER) for name in ("alpha-1", "b-2")),
                  name="web", **NEVER)
    _, members = settled(cloud, uuid, "Running")
    return uuid, *(each["uuid"] for each in members)


def shown(client, *argv, rounds=()):
    """Run the command, and return the lines of its output. Each of ``rounds`` is called for one pause."""
    out, left = io.StringIO(), iter(rounds)
    command = Logs(types.SimpleNamespace(stdout=out, client_manager=types.SimpleNamespace(container=client)), None)
    command.pause = lambda seconds: next(left)()
    command.run(command.get_parser("openstack").parse_args(list(argv)))
    assert next(left, None) is None, "the command ended early"
    return out.getvalue().splitlines()


def write(cloud, uuid, *lines):
    for line in lines:
        cloud.drivers["one"].write_log(uuid, line)


def test_lines_are_ordered_by_time_with_the_name_before(cloud, client, web):
    _, first, second = web
    for uuid, line in [(first, "one"), (second, "two"), (first, "three | 3"), (second, "")]:
        write(cloud, uuid, line)
    assert shown(client, "web") == ["alpha-1 | one", "b-2     | two", "alpha-1 | three | 3", "b-2     | "]
    assert shown(client, "web", "--tail", "1") == ["alpha-1 | three | 3", "b-2     | "]
    assert shown(client, "web", "--tail", "0") == []
    assert shown(client, "web", "--since", "4000000000") == []
    assert shown(client, "web", "--container", "b-2") == ["b-2 | two", "b-2 | "]
    by_uuid, by_name = (shown(client, "web", "--container", each) for each in (first, "capsule-web-alpha-1"))
    assert by_uuid == by_name == ["alpha-1 | one", "alpha-1 | three | 3"]
    (line,) = shown(client, "web", "--timestamps", "--tail", "1", "--container", "alpha-1")
    assert line.startswith("alpha-1 | 20") and line.endswith("Z three | 3")


def test_wrong_names_say_what_there_is(client, web):
    with pytest.raises(exceptions.CommandError, match=r"Capsule web has no container c\. It has alpha-1, b-2"):
        shown(client, "web", "--container", "c")
    with pytest.raises(exceptions.CommandError, match="Capsule other could not be found"):
        shown(client, "other")
    with pytest.raises(SystemExit):
        shown(client, "web", "--tail", "-1")


def test_follow_shows_each_line_once_until_all_have_ended(cloud, client, web):
    uuid, first, second = web
    write(cloud, first, "one")
    driver = cloud.drivers["one"]

    def quiet():
        pass

    def ends():
        write(cloud, first, "last words")
        for each in (first, second):
            driver.exit(each)
        settled(cloud, uuid, "Stopped")

    rounds = [lambda: write(cloud, second, "two", "two"), quiet, lambda: write(cloud, first, "three"), ends]
    expected = ["alpha-1 | one", "b-2     | two", "b-2     | two", "alpha-1 | three", "alpha-1 | last words"]
    assert shown(client, "web", "--follow", rounds=rounds) == expected
    assert [each["tail"] for each in client.asked] == ["all"] * 10
    assert all("since" in each for each in client.asked[4:])  # both have written: only what is new is asked for


@pytest.mark.parametrize("tail", ["0", "1"])
def test_follow_begins_with_the_tail(cloud, client, web, tail):
    _, first, _ = web
    write(cloud, first, "old", "older")

    def stop():
        raise KeyboardInterrupt

    rounds = [lambda: write(cloud, first, "new", "newer"), stop]
    expected = [*["alpha-1 | older"] * int(tail), "alpha-1 | new", "alpha-1 | newer"]
    assert shown(client, "web", "--follow", "--tail", tail, rounds=rounds) == expected


def test_follow_ends_when_the_capsule_is_deleted(cloud, client, web, context, capsys):
    uuid, first, _ = web

    def delete():
        write(cloud, first, "never read")
        cloud.compute_api.delete(context, Container.from_row(context, db.get(uuid)), force=True)
        cloud.row_gone(Container(uuid=uuid))

    assert shown(client, "web", "--follow", rounds=[delete]) == []
    assert capsys.readouterr().err == "Capsule web was deleted.\n"


def test_logs_that_go_with_their_capsule_are_no_errors(cloud, client, web, capsys, monkeypatch):
    _, first, _ = web
    write(cloud, first, "before")

    def leave():
        """The objects are gone, and the rows are not: that of the capsule says so by the next look."""
        asked = []

        def get(ident):
            asked.append(ident)
            if len(asked) > 3:
                raise zun_exceptions.NotFound("it is gone")
            found = Client.get(client, ident)
            return types.SimpleNamespace(**{**vars(found), "status": "Running" if len(asked) == 1 else "Deleting"})

        monkeypatch.setattr(client, "get", get)
        cloud.drivers["one"].fail("logs", zun_errors.Conflict("it is gone"), times=2)

    assert shown(client, "web", "--follow", rounds=[leave, lambda: None]) == ["alpha-1 | before"]
    assert capsys.readouterr().err == "Capsule web was deleted.\n"


def test_wrong_question_is_one_error(client, web, capsys):
    with pytest.raises(exceptions.CommandError, match="since: give seconds since 1970"):
        shown(client, "web", "--since", "yesterday")
    assert capsys.readouterr().err == ""


def test_one_log_that_cannot_be_read_does_not_hide_the_others(cloud, client, web, capsys):
    *_, second = web
    write(cloud, second, "two")
    driver = cloud.drivers["one"]
    driver.fail("logs", zun_errors.Conflict("it is gone"))
    assert shown(client, "web") == ["b-2     | two"]
    assert "alpha-1: its log cannot be read: " in capsys.readouterr().err
    driver.fail("logs", zun_errors.Conflict("it is gone"), times=2)
    with pytest.raises(exceptions.CommandError, match="No log could be read"):
        shown(client, "web")


def test_log_larger_than_an_answer_is_shown_from_its_end(cloud, client, web, capsys):
    _, first, _ = web
    write(cloud, first, "one")
    cloud.drivers["one"].fail("logs", zun_errors.Conflict("The log is larger than 16 MiB. Ask for a part of it."))
    assert shown(client, "web", "--container", "alpha-1") == ["alpha-1 | one"]
    assert client.asked[-1]["tail"] == "1000" and "Its last 1000 lines are shown" in capsys.readouterr().err


def test_container_that_is_not_made_yet_is_waited_for(cloud, client, context):
    submit(cloud, context, member(1.0, **NEVER), name="late", **NEVER)
    assert shown(client, "late") == []
    uuid = client.get("late").uuid
    _, (only,) = settled(cloud, uuid, "Running")

    def ends():
        write(cloud, only["uuid"], "here")
        cloud.drivers["one"].exit(only["uuid"])
        settled(cloud, uuid, "Stopped")

    (line,) = shown(client, "late", "--follow", rounds=[ends])
    assert line.endswith("| here")


class Closed(io.StringIO):
    def flush(self):
        raise BrokenPipeError


def test_reader_that_has_gone_ends_it(client, web):
    command = Logs(
        types.SimpleNamespace(stdout=Closed(), client_manager=types.SimpleNamespace(container=client)), None
    )
    command.run(command.get_parser("openstack").parse_args(["web", "--follow"]))


STAMP, X = "2026-11-30T10:00:00.000000001Z", "x" * PART


@pytest.mark.parametrize(
    ("log", "texts"),
    [
        pytest.param("", [], id="empty"),
        pytest.param(f"{STAMP} a\r\n{STAMP} \n", ["a", ""], id="terminal"),
        pytest.param(f"{STAMP} a\nb\n", ["a", "b"], id="no-time"),
        pytest.param(f"{STAMP} {X}{STAMP} {X}{STAMP} z\n", [f"{X}{X}z"], id="long"),
        pytest.param(f"{STAMP} a{STAMP} b\n", [f"a{STAMP} b"], id="time-in-a-text"),
        pytest.param(f"{STAMP} a\x0bb\u2028c\n", ["a\x0bb\u2028c"], id="other-ends-of-lines"),
    ],
)
def test_lines_of_a_log(log, texts):
    assert [line.text for line in lines_of(log)] == texts


@pytest.mark.parametrize("zone", ["Z", "+00:00", "+02:00"])
def test_times_of_lines(zone):
    hour = 10 if zone != "+02:00" else 12
    first, second = lines_of(f"1970-01-01T{hour}:00:00.5{zone} a\n1970-01-01T{hour}:00:00{zone} b\n")
    assert (first.at, second.at) == (36000_500_000_000, 36000_500_000_000)  # its clock was set back


@given(st.lists(st.integers(0, 3_000_000), max_size=20), st.lists(st.integers(0, 20), max_size=6))
def test_every_line_is_shown_once(moments, cuts):
    """Whenever it is asked, and however many lines have one time or one millisecond."""
    whole = [Line(10**18 + at, "", str(number)) for number, at in enumerate(sorted(moments))]
    log, found = Log(), []
    for cut in [*sorted(cuts), len(whole)]:
        since = log.question.get("since")
        from_ms = 0 if since is None else log._last // 10**6 * 10**6
        found += log.new([line for line in whole[:cut] if line.at >= from_ms])
    assert found == whole


@given(st.lists(st.lists(st.integers(0, 5), max_size=5), max_size=3))
def test_merged_keeps_the_order_of_each(times):
    logs = [(str(name), [Line(at, "", "") for at in sorted(each)]) for name, each in enumerate(times)]
    together = list(merged(logs))
    assert [line.at for _, line in together] == sorted(at for each in times for at in each)
    for name, lines in logs:
        assert [line for other, line in together if other == name] == lines
