# SPDX-License-Identifier: Apache-2.0
"""A database is lost while containers run, and their hosts write the rows again."""

import errno
import json
import pathlib

import pytest

from zun.cmd import db_manage
from zun.common import exceptions
from zun.common.context import admin_context
from zun.compute.kept.records import Records
from zun.db import containers as db
from zun.db import models, network_ports, quotas, session
from zun.db import registries as db_registries
from zun.objects import Container
from zun.tests.fixtures import wait_for
from zun.tests.functional.capsules import member, settled, submit
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.networks import network
from zun.topology import CpuSet

TWO = {"cpu_policy": "dedicated", "cpu": 2.0}
MOVING = {"revision", "id", "updated_at", "created_at"}


@pytest.fixture
def cloud(database):
    options = {"compute__audit_interval": 0, "compute__sync_container_state_interval": 3600}
    with Cloud({"one": machine(cells=2)}, **options) as cloud:
        yield cloud


def lose_database(cloud):
    """Stop the agent, empty every table, and start the agent again: what follows is a new database."""
    wait_for(lambda: not cloud.agents["one"].queue.busy())
    cloud.stop_agent("one")
    with session.writer() as connection:
        for table in reversed(models.metadata.sorted_tables):
            connection.execute(table.delete())
    cloud.start_agent("one")


def noted(cloud, uuid):
    """Return what the host has on file of a container."""
    return json.loads((_folder(cloud) / f"{uuid}.json").read_text())


def _folder(cloud):
    return pathlib.Path(cloud.conf.state_path, "records", "one")


def facts(uuid):
    return {name: value for name, value in db.get(uuid).items() if name not in MOVING}


def recover(cloud, *, dry_run=False):
    return {each["uuid"]: each["reason"] for each in cloud.compute_api.recover(admin_context(), "one", dry_run=dry_run)}


def started(cloud):
    """Return pid and CPUs of every process at the runtime, by uuid."""
    return {uuid: (each.pid, each.cpuset_cpus) for uuid, each in cloud.drivers["one"].runtime.objects.items()}


def test_rows_return_and_nothing_is_restarted(cloud, context):
    dedicated = cloud.run(context, **TWO, name="db", environment={"PASSWORD": "s"}, labels={"a": "b"})
    shared = cloud.run(context, cpu=0.5, memory=64)
    stopped = cloud.run(context, **TWO, command=["true"])
    wait_for(lambda: db.get(stopped.uuid)["status"] == "Stopped")
    cloud.agents["one"]._compare()
    wait_for(lambda: not cloud.agents["one"].queue.busy())
    uuids = [dedicated.uuid, shared.uuid, stopped.uuid]
    before = {uuid: facts(uuid) for uuid in uuids}
    usage, processes = cloud.agents["one"].tracker.usage, started(cloud)
    lose_database(cloud)
    assert recover(cloud, dry_run=True) == dict.fromkeys(uuids) and db.of_host("one") == []
    assert recover(cloud) == dict.fromkeys(uuids)
    assert {uuid: facts(uuid) for uuid in uuids} == before
    assert cloud.agents["one"].tracker.usage == usage and started(cloud) == processes
    assert recover(cloud) == {}
    assert cloud.compute_api.audit(context, "one")["findings"] == []
    assert quotas.usage("demo")["containers"] == 3


def test_recovered_container_is_resized_and_deleted(cloud, context):
    container = cloud.run(context, **TWO)
    lose_database(cloud)
    recover(cloud)
    again = Container.get_by_uuid(context, container.uuid)
    assert cloud.compute_api.update(context, again, cpu=3.0).cpu == 3
    cloud.compute_api.delete(context, again, force=True)
    cloud.gone(again)
    assert not started(cloud) and recover(cloud) == {}


def test_resize_is_in_the_record_at_once(cloud, context):
    container = cloud.run(context, **TWO)
    cloud.compute_api.update(context, container, cpu=3.0, memory=256)
    before = facts(container.uuid)
    lose_database(cloud)
    recover(cloud)
    assert facts(container.uuid) | {"status": "Running"} == before


def test_nobody_gets_the_cpus_of_a_lost_container(cloud, context):
    """Also before somebody recovers it: the host keeps the CPUs out of its inventory."""
    lost = [cloud.run(context, **TWO) for _ in range(3)]
    lose_database(cloud)
    first, second = cloud.run(context, **TWO), cloud.run(context, **TWO)
    held = CpuSet(",".join(cpus for uuid, (_, cpus) in started(cloud).items() if uuid in {each.uuid for each in lost}))
    assert first.status == "Running" and not CpuSet(first.cpuset["cpuset_cpus"]) & held
    assert second.status == "Error"
    assert set(recover(cloud).values()) == {None}
    assert cloud.agents["one"].tracker.topology.cells[0].cpus == machine().cells[0].cpus


def test_members_return_with_their_capsule(cloud, context):
    uuid = submit(cloud, context, member(2.0), member(1.0))
    capsule, members = settled(cloud, uuid, "Running")
    cloud.agents["one"]._compare()
    wait_for(lambda: not cloud.agents["one"].queue.busy())
    before, processes = [facts(each["uuid"]) for each in (capsule, *members)], started(cloud)
    lose_database(cloud)
    assert set(recover(cloud).values()) == {None}
    settled(cloud, uuid, "Running")
    assert [facts(each["uuid"]) for each in (capsule, *members)] == before and started(cloud) == processes
    again = Container.get_by_uuid(context, uuid)
    cloud.compute_api.delete(context, again, force=True)
    cloud.gone(again)
    assert not started(cloud)


def test_networks_return_with_their_addresses(cloud, context):
    net = network("n")
    container = cloud.run(context, **TWO, nets=[net])
    ports, plugged = network_ports.of_container(container.uuid), dict(cloud.networks["one"].plugged)
    addresses = db.get(container.uuid)["addresses"]
    wait_for(lambda: noted(cloud, container.uuid)["ports"])
    lose_database(cloud)
    assert recover(cloud) == {container.uuid: None}
    wait_for(lambda: not cloud.agents["one"].queue.busy())
    again = network_ports.of_container(container.uuid)
    assert [(each["uuid"], each["ipv4"]) for each in again] == [(each["uuid"], each["ipv4"]) for each in ports]
    assert db.get(container.uuid)["addresses"] == addresses and dict(cloud.networks["one"].plugged) == plugged


def test_group_and_registry_that_are_lost_are_left_out(cloud, context):
    registry = db_registries.insert({"project_id": "demo", "domain": "own.io"})
    container = cloud.run(context, registry_id=registry["uuid"], **TWO)
    lose_database(cloud)
    assert recover(cloud) == {container.uuid: None}
    assert db.get(container.uuid)["registry_id"] is None


@pytest.fixture
def lost(cloud, context):
    container = cloud.run(context, **TWO)
    wait_for(lambda: noted(cloud, container.uuid)["container"]["container_id"])
    wait_for(lambda: cloud.drivers["one"].heard() and not cloud.agents["one"].queue.busy())
    return container


def test_stranger_without_a_record_stays_a_stranger(cloud, context, lost):
    file = _folder(cloud) / f"{lost.uuid}.json"
    lose_database(cloud)  # nothing writes a record without a row
    file.unlink()
    assert "no record" in recover(cloud)[lost.uuid]
    file.write_text("{")
    assert "no record" in recover(cloud)[lost.uuid] and db.of_host("one") == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"host": "two"}, "on host two", id="other-host"),
        pytest.param({"container_id": "f" * 64}, "somebody else may have made", id="other-object"),
        pytest.param({"cpuset": None}, "has no claim", id="no-claim"),
        pytest.param({"kind": "leftover"}, "was deleted", id="leftover"),
    ],
)
def test_record_that_does_not_fit_is_refused(cloud, context, lost, change, reason):
    record = noted(cloud, lost.uuid)
    lose_database(cloud)
    record["container"] |= change
    (_folder(cloud) / f"{lost.uuid}.json").write_text(json.dumps(record))
    assert reason in recover(cloud)[lost.uuid] and db.of_host("one") == []
    assert lost.uuid not in cloud.agents["one"].tracker.usage.owners


def test_cpus_that_others_have_by_now_are_refused(cloud, context, lost):
    """Without a record nobody kept its CPUs; the record came back later, from a backup of the host's files."""
    record = noted(cloud, lost.uuid)
    lose_database(cloud)
    (_folder(cloud) / f"{lost.uuid}.json").unlink()
    cloud.agents["one"]._update_inventory()
    other = cloud.run(context, **TWO)
    (_folder(cloud) / f"{lost.uuid}.json").write_text(json.dumps(record))
    assert "belong to other containers by now" in recover(cloud)[lost.uuid]
    assert list(cloud.agents["one"].tracker.usage.owners) == [other.uuid]


def test_failed_write_gives_the_claim_back(cloud, context, lost, monkeypatch):
    def full(*_, **__):
        raise exceptions.Conflict("its address belongs to another container by now")

    lose_database(cloud)
    monkeypatch.setattr(db, "restore", full)
    assert "by now" in recover(cloud)[lost.uuid]
    assert lost.uuid not in cloud.agents["one"].tracker.usage.owners


def test_record_of_a_deleted_container_is_removed(cloud, context, lost):
    cloud.compute_api.delete(context, lost, force=True)
    cloud.gone(lost)
    cloud.agents["one"]._update_inventory()
    assert list(_folder(cloud).iterdir()) == []


def test_records_are_for_the_agents_user_only(cloud, lost):
    assert _folder(cloud).stat().st_mode & 0o777 == 0o700
    assert (_folder(cloud) / f"{lost.uuid}.json").stat().st_mode & 0o777 == 0o600


def test_full_disk_stops_no_creation(cloud, context, caplog, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Records, "_write", full)
    assert cloud.run(context, **TWO).status == "Running"
    assert "was not written" in caplog.text


def test_command_tells_what_is_left_to_do(cloud, context, lost, capsys):
    lose_database(cloud)
    assert db_manage.recover(cloud.compute_api, ["one"], dry_run=True) == 0
    assert db_manage.recover(cloud.compute_api, ["one"], dry_run=False) == 0
    assert db_manage.recover(cloud.compute_api, ["one"], dry_run=False) == 0
    said = capsys.readouterr().out
    assert f"({lost.uuid}) would have its row again" in said and f"({lost.uuid}) has its row again" in said
    assert "the database has every container" in said
    lose_database(cloud)
    (_folder(cloud) / f"{lost.uuid}.json").unlink()
    assert db_manage.recover(cloud.compute_api, ["one"], dry_run=False) == 1
    assert f"{lost.uuid} is not in the database: this host has no record" in capsys.readouterr().out
