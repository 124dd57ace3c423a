# SPDX-License-Identifier: Apache-2.0
"""The life of the containers of a capsule: sidecars, probes, the order of an end, and why a capsule ended."""

import threading
import time

import pytest
from oslo_utils import uuidutils

from zun.common.probes import GRACE, PROBES, SIDECAR
from zun.common.states import Kind
from zun.compute.container.capsules import CapsuleMembers
from zun.db import capsules as db_capsules
from zun.db import containers as db
from zun.objects import Container
from zun.tests.fixtures import wait_for
from zun.tests.functional.capsules import member, settled
from zun.tests.functional.cloud import cloud_of, machine
from zun.tests.functional.over_api import OPTIONS, administrator_of
from zun.tests.host_in_memory import look_now
from zun.topology import CpuSet

cloud = cloud_of({"one": machine()}, compute__sync_container_state_interval=3600, **OPTIONS)

ALWAYS, NEVER = {"Name": "always", "MaximumRetryCount": "0"}, {"Name": "no", "MaximumRetryCount": "0"}
OFTEN = {"periodSeconds": 0.02, "timeoutSeconds": 5}


def sidecar(*args, probes=None, **fields):
    request = {"run": True, SIDECAR: True, **({PROBES: probes} if probes else {})}
    return member(*args, request=request, restart_policy=ALWAYS, **fields)


def probed(*args, fields=None, **probes):
    return member(*args, request={"run": True, PROBES: probes}, **(fields or {}))


def in_order(cloud, context, *members, policy="dedicated", total=None, **fields):
    """Submit members in this order of starting, whatever their kind."""
    cpu, memory = total or (sum(each["cpu"] for each in members), sum(each["memory"] for each in members))
    values = {
        "uuid": uuidutils.generate_uuid(), "name": "pod", "project_id": context.project_id,
        "user_id": context.user_id, "image": "pause", "cpu": cpu, "memory": memory, "cpu_policy": policy,
        "placement": {}, "request": {"run": True}, "restart_policy": ALWAYS, "status": "Creating", **fields,
    }  # fmt: skip
    row = db_capsules.insert(values, members)
    cloud.scheduler_api.create(context, Container.from_row(context, row))
    return row["uuid"]


def rows(uuid):
    return db_capsules.members([uuid])[uuid]


def runs(driver, row):
    found = driver.runtime.objects.get(row["uuid"])
    return found is not None and bool(found.pid)


def test_sidecars_start_among_init_containers_and_stay(cloud, context):
    driver = cloud.drivers["one"]
    uuid = in_order(
        cloud, context,
        member(1.0, kind=Kind.INIT, command=["true"]),
        sidecar(1.0),
        member(2.0, kind=Kind.INIT, command=["sleep", "7"]),
        member(2.0),
        total=(3.0, 192),
    )  # fmt: skip
    first, side, second, main = rows(uuid)
    waits = f"Init container {second['name']} has not ended yet."
    wait_for(lambda: runs(driver, second) and db.get(uuid)["status_reason"] == waits)
    assert runs(driver, side) and not runs(driver, first) and main["uuid"] not in driver.runtime.objects
    sets = {each["uuid"]: CpuSet(driver.runtime.objects[each["uuid"]].cpuset_cpus) for each in (side, second)}
    assert not sets[side["uuid"]] & sets[second["uuid"]]  # the init container has none of the sidecar's CPUs
    assert [len(each) for each in sets.values()] == [1, 2]
    driver.exit(second["uuid"])
    row, found = settled(cloud, uuid, "Running")
    assert row["status_reason"] is None
    assert [each["status"] for each in found] == ["Stopped", "Running", "Stopped", "Running"]


def test_containers_wait_for_the_start_up_probe_of_a_sidecar(cloud, context):
    driver = cloud.drivers["one"]
    probes = {"startup": {"tcpSocket": {"port": 80}, "failureThreshold": 100000, **OFTEN}}
    uuid = in_order(cloud, context, sidecar(1.0, probes=probes), member(1.0))
    side, main = rows(uuid)
    wait_for(lambda: runs(driver, side))
    detail = "not ready: start-up probe: connect to capsule:80: Connection refused"
    wait_for(lambda: rows(uuid)[0]["status_detail"] == detail)
    assert main["uuid"] not in driver.runtime.objects and db.get(uuid)["status"] == "Creating"
    assert db.get(uuid)["status_reason"] == f"The start-up probe of sidecar {side['name']} has not succeeded yet."
    driver.answer(side["uuid"], 80, b"")
    _, (side, main) = settled(cloud, uuid, "Running")
    assert wait_for(lambda: rows(uuid)[0]["status_detail"] == "ready") and runs(driver, main)


def test_sidecars_end_when_the_containers_have_ended(cloud, context):
    driver = cloud.drivers["one"]
    uuid = in_order(
        cloud, context, sidecar(1.0), member(1.0, restart_policy=NEVER), member(1.0, restart_policy=NEVER)
    )
    settled(cloud, uuid, "Running")
    side, one, two = rows(uuid)
    driver.exit(one["uuid"], 0)
    wait_for(lambda: rows(uuid)[1]["status"] == "Stopped")
    assert runs(driver, side) and db.get(uuid)["status"] == "Running"
    driver.exit(two["uuid"], 3)
    row, (side, *_) = settled(cloud, uuid, "Stopped")
    assert row["status_reason"] == f"{two['name']} ended with exit code 3"
    assert wait_for(lambda: rows(uuid)[0]["status"] == "Stopped") and not runs(driver, side)


def test_a_sidecar_that_ends_does_not_end_the_capsule(cloud, context):
    driver = cloud.drivers["one"]
    uuid = in_order(cloud, context, sidecar(1.0), member(1.0))
    settled(cloud, uuid, "Running")
    side, main = rows(uuid)
    driver.stop(driver_view(cloud, side))
    wait_for(lambda: rows(uuid)[0]["status"] == "Stopped")
    assert db.get(uuid)["status"] == "Running" and runs(driver, main)


def driver_view(cloud, row):
    return Container.from_row(None, row)


@pytest.mark.parametrize("policy", [ALWAYS, NEVER])
def test_a_failed_liveness_probe_restarts_or_ends_the_container(cloud, context, policy):
    driver = cloud.drivers["one"]
    probes = {"liveness": {"tcpSocket": {"port": 80}, "failureThreshold": 2, **OFTEN}}
    main = member(1.0, request={"run": True, PROBES: probes}, restart_policy=policy)
    uuid = in_order(cloud, context, main, member(1.0))
    first, _ = rows(uuid)
    wait_for(lambda: first["uuid"] in driver.runtime.objects)
    why = "Its liveness probe failed 2 times in a row (connect to capsule:80: Connection refused). It was "
    again = policy is ALWAYS
    wait_for(lambda: (rows(uuid)[0]["status_reason"] or "").startswith(why))
    if not again:
        found = wait_for(lambda: (row := rows(uuid)[0])["status"] == "Stopped" and row)
        assert found["status_reason"] == f"{why}ended, as its restart policy says."
        driver.exit(rows(uuid)[1]["uuid"], 0)
        row, _ = settled(cloud, uuid, "Stopped")
        assert row["status_reason"].startswith(f"{first['name']} ended with exit code 143: {why}")
        return
    started = driver.runtime.objects[first["uuid"]].started_at
    wait_for(lambda: driver.runtime.objects[first["uuid"]].started_at > started)  # and again
    driver.answer(first["uuid"], 80, b"")
    _, (found, _) = settled(cloud, uuid, "Running")
    assert found["status"] == "Running" and found["status_reason"] == f"{why}restarted."


def test_readiness_is_shown_and_changes_nothing(cloud, context):
    driver = cloud.drivers["one"]
    uuid = in_order(cloud, context, probed(1.0, readiness={"httpGet": {"port": 8080, "path": "/ok"}, **OFTEN}))
    settled(cloud, uuid, "Running")
    (main,) = rows(uuid)
    refused = "not ready: readiness probe: GET http://capsule:8080/ok: Connection refused"
    wait_for(lambda: rows(uuid)[0]["status_detail"] == refused)
    driver.answer(main["uuid"], 8080, b"HTTP/1.1 204 No Content\r\n\r\n")
    wait_for(lambda: rows(uuid)[0]["status_detail"] == "ready")
    started = driver.runtime.objects[main["uuid"]].started_at
    driver.answer(main["uuid"], 8080, b"HTTP/1.1 500 Oh\r\n\r\n")
    wait_for(lambda: "500 Oh" in (rows(uuid)[0]["status_detail"] or ""))
    assert driver.runtime.objects[main["uuid"]].started_at == started
    driver.exit(main["uuid"], 0)
    wait_for(lambda: rows(uuid)[0]["status"] == "Stopped")
    assert rows(uuid)[0]["status_detail"] is None  # it says when the container ended


def test_sidecars_end_in_the_opposite_order_of_their_start(cloud, context):
    driver = cloud.drivers["one"]
    uuid = in_order(cloud, context, sidecar(1.0), sidecar(1.0), sidecar(1.0), member(1.0, restart_policy=NEVER))
    settled(cloud, uuid, "Running")
    *sides, main = (each["uuid"] for each in rows(uuid))
    ended = []
    driver.before("stop", lambda container: ended.append(container.uuid))
    driver.exit(main, 0)
    wait_for(lambda: {each["status"] for each in rows(uuid)} == {"Stopped"})
    assert ended == [*reversed(sides)]


@pytest.mark.parametrize("grace", [1000, 5])
def test_somebody_in_a_hurry_ends_a_graceful_deletion(cloud, context, grace):
    driver, api = cloud.drivers["one"], administrator_of(cloud)
    stubborn = ("sh", "-c", "trap '' TERM; sleep 1000")
    graceful = {"request": {"run": True, GRACE: grace}}
    uuid = in_order(
        cloud, context, sidecar(1.0, command=stubborn), member(1.0, command=stubborn, **graceful), **graceful
    )
    settled(cloud, uuid, "Running")
    stops = threading.Event()
    driver.before("stop", lambda container: stops.set())
    path = f"/v1/capsules/{uuid}?all_projects=true"
    assert api.delete(path).status == 204 and stops.wait(10)
    assert api.delete(path).status == 204  # the same again changes nothing
    assert len(driver.list()) == 3
    assert api.at("1.51").delete(f"{path}&force=true").status == 204
    began = time.monotonic()
    wait_for(lambda: not driver.list())
    assert time.monotonic() - began < 60
    wait_for(lambda: api.get(path).status == 404)


def test_a_deletion_in_a_hurry_does_not_stop_first(cloud, context):
    driver = cloud.drivers["one"]
    driver.before("stop", lambda container: pytest.fail("nothing is stopped"))
    graceful = {"request": {"run": True, GRACE: 1000}}
    uuid = in_order(cloud, context, member(1.0, **graceful), **graceful)
    settled(cloud, uuid, "Running")
    path = f"/v1/capsules/{uuid}?all_projects=true&force=true"
    assert administrator_of(cloud).at("1.51").delete(path).status == 204
    wait_for(lambda: not driver.list())


def test_a_deletion_stops_containers_together_and_sidecars_last(cloud, context):
    driver, order = cloud.drivers["one"], []
    stubborn = ("sh", "-c", "trap '' TERM; sleep 1000")
    driver.before("stop", lambda container: order.append((container.uuid, len(driver.list()))))
    graceful = {"request": {"run": True, GRACE: 1}}
    uuid = in_order(
        cloud, context, sidecar(1.0), sidecar(1.0), member(1.0, command=stubborn, **graceful), member(1.0, **graceful),
        **graceful,
    )  # fmt: skip
    settled(cloud, uuid, "Running")
    early, late, *served = (each["uuid"] for each in rows(uuid))
    assert administrator_of(cloud).delete(f"/v1/capsules/{uuid}?all_projects=true").status == 204
    wait_for(lambda: not driver.list())
    assert {each for each, _ in order[:2]} == set(served)
    assert [each for each, _ in order[2:]] == [late, early]
    assert all(count == 5 for _, count in order)  # nothing was removed before all were stopped



def test_no_probe_is_asked_of_a_deleted_capsule(cloud, context):
    """Not while its containers have time to end, and not after."""
    driver, prober, during = cloud.drivers["one"], cloud.agents["one"].parts.prober, []
    graceful = {"run": True, GRACE: 1, PROBES: {"readiness": {"tcpSocket": {"port": 80}, **OFTEN}}}
    uuid = in_order(cloud, context, member(1.0, request=graceful), request={"run": True, GRACE: 1})
    settled(cloud, uuid, "Running")
    wait_for(lambda: prober._watches)
    driver.before("stop", lambda container: during.append(dict(prober._watches)))
    assert administrator_of(cloud).delete(f"/v1/capsules/{uuid}?all_projects=true").status == 204
    wait_for(lambda: db_capsules.members([uuid])[uuid] == [])
    assert during == [{}] and not prober._watches


def test_no_probe_is_asked_after_a_deletion_during_the_creation(cloud, context, monkeypatch):
    """The look that goes on with the creation also deletes."""
    driver, parts = cloud.drivers["one"], cloud.agents["one"].parts
    probes = {"startup": {"tcpSocket": {"port": 80}, "failureThreshold": 100000, **OFTEN}}
    uuid = in_order(cloud, context, sidecar(1.0, probes=probes), member(1.0))
    wait_for(lambda: parts.prober._watches)
    advance, api = CapsuleMembers.advance, administrator_of(cloud)

    def delete_meanwhile(*args):
        monkeypatch.undo()
        assert api.delete(f"/v1/capsules/{uuid}?all_projects=true").status == 204
        return advance(*args)

    monkeypatch.setattr(CapsuleMembers, "advance", delete_meanwhile)
    look_now(parts, uuid)
    wait_for(lambda: db_capsules.members([uuid])[uuid] == [] and not driver.list())
    assert not parts.prober._watches
