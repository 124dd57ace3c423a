# SPDX-License-Identifier: Apache-2.0
import datetime
import json

import pytest

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.db import compute_nodes, containers
from zun.messaging import rpc
from zun.objects import Container
from zun.tests.fixtures import new_container
from zun.tests.unit.db.rows import CPUSET, NODE, values

pytestmark = pytest.mark.usefixtures("database")
UTC = datetime.UTC
NOON = datetime.datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
MISSING = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"


def fields_of(thing):
    """Every set field, by name."""
    return {name: thing[name] for name in thing.fields if thing.obj_attr_is_set(name)}


def sent(context, thing):
    """``thing`` as the other side of a message gets it."""
    serializer = rpc.ContextSerializer()
    message = json.loads(json.dumps(serializer.serialize_entity(context, thing)))
    return serializer.deserialize_entity(context, message)


# by message


def test_a_container_arrives_as_it_was_sent(context):
    container = new_container(
        context,
        cpu=1.5,
        placement={"numa_cpus": [1, 3], "mem_page_size": "2048"},
        environment={"NAME": "ü"},
        labels={},
        command=["sleep", "1000"],
        restart_policy={"Name": "on-failure", "MaximumRetryCount": "3"},
        mounts=[],
        cpuset=CPUSET,
        host="h1",
        started_at=NOON,
        finished_at=None,
        exit_code=-9,
        status_reason="No.",
    )
    arrived = sent(context, container)
    whole_seconds = {"created_at": container.created_at.replace(microsecond=0)}
    assert fields_of(arrived) | whole_seconds == fields_of(container) | whole_seconds
    assert arrived.obj_what_changed() == set()


@pytest.mark.parametrize("micro", [0, 1, 999999])
def test_times_arrive_to_the_microsecond(context, micro):
    moment = NOON.replace(microsecond=micro)
    assert sent(context, Container(context, started_at=moment)).started_at == moment


def test_what_changed_arrives_as_changed(context):
    container = new_container(context)
    container.status_reason = "seen"
    assert sent(context, container).obj_what_changed() == {"status_reason"}


# by row


def test_created_container_has_given_values_and_defaults(context):
    container = Container(context, name="web", project_id="demo", image="nginx", cpu=1, memory=64)
    container.create()
    shown = ("status", "cpu_policy", "placement", "request", "disk", "tty", "auto_remove", "host", "cpuset", "cpu")
    assert [container[name] for name in shown] == ["Creating", "shared", {}, {}, 0, False, False, None, None, 1.0]
    assert container.obj_what_changed() == set()
    assert fields_of(Container.get_by_uuid(context, container.uuid)) == fields_of(container)
    assert abs(container.created_at - datetime.datetime.now(UTC)) < datetime.timedelta(minutes=1)


def test_two_containers_share_no_default(context):
    first, second = (Container(context, name="web", project_id="demo", image="i", cpu=1, memory=4) for _ in "ab")
    first.create()
    first.placement["numa_nodes"] = 2
    second.create()
    assert second.placement == {}


def test_save_writes_what_changed_and_nothing_else(context):
    container = new_container(context, status_reason="old")
    other = Container.get_by_uuid(context, container.uuid)
    other.status_reason, other.labels = "new", {"a": "b"}
    other.save()
    container.task_state = "container_creating"
    container.save()
    row = containers.get(container.uuid)
    assert (row["status_reason"], row["labels"], row["task_state"]) == ("new", {"a": "b"}, "container_creating")
    assert container.obj_what_changed() == set()
    assert container.updated_at >= container.created_at


def test_save_without_a_change_writes_nothing(context):
    container = new_container(context)
    container.save()
    assert containers.get(container.uuid)["updated_at"] is None


def test_what_was_saved_is_not_saved_again(context):
    container = new_container(context)
    container.status_reason = "mine"
    container.save()
    containers.update(container.uuid, {"status_reason": "theirs"})
    container.task_state = "container_creating"
    container.save()
    assert containers.get(container.uuid)["status_reason"] == "theirs"


def test_times_are_kept_in_utc(context):
    container = new_container(context)
    container.started_at = datetime.datetime(2026, 3, 4, 12, 0, 0, 5)
    container.save()
    assert containers.get(container.uuid)["started_at"] == datetime.datetime(2026, 3, 4, 12, 0, 0, 5)
    assert Container.get_by_uuid(context, container.uuid).started_at == NOON.replace(microsecond=5)


def test_an_illegal_status_is_refused_and_still_to_be_saved(context):
    container = new_container(context, status="Deleting")
    container.status = "Running"
    with pytest.raises(exceptions.IllegalTransition, match="from Deleting to Running"):
        container.save()
    assert containers.get(container.uuid)["status"] == "Deleting"
    assert container.obj_what_changed() == {"status"}


def test_a_claim_is_saved_with_what_changed(context):
    compute_nodes.put("h1", NODE)
    container = new_container(context)
    container.cpuset, container.task_state = CPUSET, "container_creating"
    assert container.save_claim("h1") == (1, None, False)
    assert (container.host, container.obj_what_changed()) == ("h1", set())
    row = containers.get(container.uuid)
    assert (row["host"], row["cpuset"], row["task_state"]) == ("h1", CPUSET, "container_creating")


def test_a_disk_that_a_claim_adds_counts_for_the_next_who_adds(context):
    compute_nodes.put("h1", NODE)
    limits = {"containers": -1, "memory": -1, "cpu": -1, "disk": 10}
    container, other = (Container(context, **values(disk=disk)) for disk in (0, 1))
    other.create(limits)  # counts
    container.create(limits)
    container.cpuset, container.disk = CPUSET, 9
    container.save_claim("h1")
    assert containers.get(container.uuid)["disk"] == 9
    with pytest.raises(exceptions.OverQuota, match="in use 10,"):
        Container(context, **values(disk=1)).create(limits)


def test_claim_on_another_hosts_container_changes_nothing(context):
    container = new_container(context)
    containers.claim(container.uuid, "h2", {"cpuset": CPUSET})
    container.cpuset = {**CPUSET, "cpuset_cpus": "4-5"}
    with pytest.raises(exceptions.Conflict):
        container.save_claim("h1")
    assert container.host is None
    assert containers.get(container.uuid)["cpuset"] == CPUSET


def test_a_claim_is_given_back_with_its_host(context):
    compute_nodes.put("h1", NODE)
    container = new_container(context, host="h1", cpuset=CPUSET)
    container.status, container.cpuset, container.host = "Error", None, None
    assert container.save_changed_claim("h1") == 1
    row = containers.get(container.uuid)
    assert (row["status"], row["cpuset"], row["host"]) == ("Error", None, None)


def test_a_destroyed_container_is_gone(context):
    compute_nodes.put("h1", NODE)
    container = new_container(context, host="h1", cpuset=CPUSET)
    assert container.destroy() == 1
    with pytest.raises(exceptions.ContainerNotFound):
        Container.get_by_uuid(context, container.uuid)
    with pytest.raises(exceptions.ContainerNotFound):
        container.status_reason = "still here"
        container.save()


def test_lookups(context, admin):
    mine = new_container(context, name="web", host="h1")
    theirs = new_container(RequestContext(user_id="bob", project_id="other"), name="web")
    assert Container.get_by_ident(context, "web").uuid == mine.uuid
    assert Container.get_by_ident(admin, theirs.uuid).uuid == theirs.uuid
    with pytest.raises(exceptions.ContainerNotFound):
        Container.get_by_ident(context, theirs.uuid)
    with pytest.raises(exceptions.ContainerNotFound):
        Container.get_by_ident(admin, "web")
    with pytest.raises(exceptions.Conflict):
        Container.get_by_ident(admin, "web", all_projects=True)
    assert [each.uuid for each in Container.list_by_host(context, "h1")] == [mine.uuid]
    found = Container.list_by_uuids(context, [mine.uuid, theirs.uuid])
    assert {each.uuid for each in found} == {mine.uuid, theirs.uuid}


def test_fields_are_read_like_a_mapping(context):
    container = new_container(context, name="web")
    assert (container["name"], dict(container)["name"], container.get("host")) == ("web", "web", None)
    container["name"] = "other"
    assert container.name == "other"


def test_every_column_is_a_field():
    counted = {"port_count", "withheld_cpu", "device_count", "revision", "set_index"}  # for the queries alone
    columns = [column for column in containers.table.c if column.name not in counted]
    assert set(Container.fields) == {column.name for column in columns}
    for column in columns:
        required = not column.nullable and column.name not in ("created_at", "updated_at")
        assert not (required and Container.fields[column.name].nullable), column.name
