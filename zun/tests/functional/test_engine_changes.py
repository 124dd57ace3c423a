# SPDX-License-Identifier: Apache-2.0
"""Hosts whose container engine is away, or comes back as another one, with runtimes in memory.

Nothing is periodic here but what runs at the start: the tests say when a host looks at its engine.
"""

from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.compute.container.observed import GONE
from zun.container.driver.facts import EngineFacts, Store
from zun.db import compute_nodes, services
from zun.db import containers as db
from zun.tests.fixtures import becomes, wait_for
from zun.tests.functional.cloud import Cloud, machine

NEVER = 10_000  # seconds
AWAY = exceptions.Unavailable("Docker does not answer on the host.")
TWO = {"cpu_policy": "dedicated", "cpu": 2.0}
OTHER = EngineFacts("In-memory", "2.0", store=Store(folder="/memory", driver="other", images="memory"))
MOVED = EngineFacts("In-memory", "2.0", store=Store(folder="/disk", driver="memory", images="memory"))


@pytest.fixture
def cloud(database):
    periods = ("heartbeat_interval", "inventory_interval", "sync_container_state_interval")
    options = {f"compute__{each}": NEVER for each in periods}
    hosts = {"one": machine(cells=2), "two": machine(cells=1)}  # "one" has more room, so it is chosen first
    with Cloud(hosts, compute__audit_interval=0, **options) as cloud:
        wait_for(lambda: all(engine(host)["away"] is None for host in hosts))
        yield cloud


def engine(host):
    return compute_nodes.find(host)["engine"] or {"away": "not told yet"}


def looks(cloud, host="one"):
    """Let the host look at its engine, as it does with each heartbeat."""
    cloud.agents[host]._ping()


def known_away(cloud, host="one"):
    """Return why the scheduler believes that the engine of the host is away."""
    cloud.scheduler.table.refresh()
    return cloud.scheduler.table.host(host).engine_away


def test_host_without_engine_gets_nothing_after_one_look(cloud, context, driver):
    assert cloud.run(context).host == "one"
    driver.fail("ping", AWAY, times=NEVER)
    looks(cloud)
    wait_for(lambda: known_away(cloud) == str(AWAY))
    before = len(cloud.scheduler.table.host("one").failures)
    assert [cloud.run(context).host for _ in range(3)] == ["two"] * 3
    assert len(cloud.scheduler.table.host("one").failures) == before  # it was not even tried
    driver.end_failures("ping")
    looks(cloud)
    wait_for(lambda: known_away(cloud) is None)
    assert cloud.run(context).host == "one"


def test_first_refused_create_tells_all_schedulers(cloud, context, driver):
    driver.fail("ping", AWAY, times=NEVER)
    assert cloud.run(context).host == "two"
    wait_for(lambda: known_away(cloud) == str(AWAY))
    assert engine("one")["away"] == str(AWAY)


def test_refused_request_names_the_engine(cloud, context, driver):
    cloud.stop_agent("two")
    services.update("two", "zun-compute", {"disabled": True})
    driver.fail("ping", AWAY, times=NEVER)
    looks(cloud)
    wait_for(lambda: known_away(cloud))
    refused = cloud.run(context)
    assert refused.status == "Error"
    assert "its container engine cannot be used" in refused.status_reason
    assert str(AWAY) not in refused.status_reason


def test_host_that_fails_each_start_is_avoided(cloud, context, driver):
    driver.fail("start", exceptions.DockerError(error="no more processes"), times=NEVER)
    assert cloud.run(context).status == "Error"
    assert [(each.status, each.host) for each in (cloud.run(context) for _ in range(3))] == [("Running", "two")] * 3
    driver.end_failures("start")


@pytest.mark.parametrize("status", ["Running", "Stopped", "Paused"])
def test_other_store_ends_no_container(cloud, context, driver, status):
    """Their objects are there and not shown, which must not look like containers that somebody removed."""
    kept = [cloud.run(context, **TWO), cloud.run(context, auto_heal=True), cloud.run(context, auto_remove=True)]
    if status == "Paused":
        driver.pause(kept[0])
    elif status == "Stopped":
        driver.exit(kept[0].uuid)
    becomes(kept[0], status=status)
    rows, usage, first = [db.get(each.uuid) for each in kept], cloud.agents["one"].tracker.usage, driver.host_facts
    driver.replace_engine(OTHER)
    looks(cloud)
    agent = cloud.agents["one"]
    agent._compare()
    wait_for(lambda: not agent.queue.busy())
    assert [db.get(each.uuid) for each in kept] == rows
    assert agent.tracker.usage == usage
    away = engine("one")["away"]
    assert "driver is other and was memory" in away
    assert any(f"does not show 2 containers, {each.uuid} among" in away for each in kept[:2])
    assert cloud.run(context).host == "two"
    driver.replace_engine(first.engine)
    looks(cloud)
    wait_for(lambda: known_away(cloud) is None)
    wait_for(lambda: not agent.queue.busy())
    assert [db.get(each.uuid)["status"] for each in kept] == [row["status"] for row in rows]
    assert cloud.run(context).host == "one"


def test_other_store_keeps_claims_of_deleted_containers(cloud, context, driver):
    container, other = cloud.run(context, **TWO), cloud.run(context)
    first = driver.host_facts.engine
    driver.replace_engine(OTHER)
    cloud.compute_api.delete(context, container, force=True)
    wait_for(lambda: db.get(container.uuid)["kind"] == "leftover")
    assert cloud.agents["one"].tracker.usage.claim(container.uuid)
    driver.replace_engine(first)
    cloud.compared("one", lambda: container.uuid not in driver.runtime.objects)
    cloud.gone(container)
    assert db.get(other.uuid)["status"] == "Running"


def test_moved_store_with_all_containers_is_used(cloud, context, driver):
    container = cloud.run(context, **TWO)
    driver.replace_engine(MOVED, moved=True)
    wait_for(lambda: engine("one")["store"]["folder"] == "/disk")
    assert (engine("one")["away"], db.get(container.uuid)["status"]) == (None, "Running")
    assert cloud.run(context).host == "one"


def test_store_of_an_empty_host_may_change(cloud, context, driver):
    container = cloud.run(context)
    cloud.compute_api.delete(context, container, force=True)
    cloud.gone(container)
    driver.replace_engine(OTHER)
    looks(cloud)
    wait_for(lambda: engine("one")["version"] == "2.0")
    assert cloud.run(context).host == "one"


def test_operator_gives_up_a_store_by_its_file(cloud, context, driver):
    container = cloud.run(context, **TWO)
    driver.replace_engine(OTHER)
    looks(cloud)
    away = engine("one")["away"]
    file = cloud.agents["one"]._engine._file
    assert f"remove {file}:" in away
    file.unlink()
    driver.join_events()  # the engine is back, as far as the agent can tell
    row = becomes(container, status="Error", status_reason=GONE)
    assert row["cpuset"] == container.cpuset


def test_agent_does_not_start_on_another_store(cloud, context, driver):
    container = cloud.run(context, **TWO)
    cloud.stop_agent("one")
    beats = services.get("one", "zun-compute")["report_count"]
    first = driver.host_facts.engine
    driver.replace_engine(OTHER)
    with pytest.raises(exceptions.Unavailable, match="was set up anew"):
        cloud.start_agent("one")
    assert "driver is other and was memory" in engine("one")["away"]
    assert services.get("one", "zun-compute")["report_count"] == beats  # or it would be chosen, and answer nothing
    driver.replace_engine(first)
    cloud.start_agent("one")
    assert (engine("one")["away"], db.get(container.uuid)["status"]) == (None, "Running")
    assert cloud.agents["one"].tracker.usage.claim(container.uuid)


def test_agent_that_starts_without_engine_says_so(cloud, context, driver):
    cloud.stop_agent("one")
    for method in ("ping", "facts", "of_other_hosts"):
        driver.fail(method, AWAY, times=NEVER)
    with pytest.raises(exceptions.Unavailable):
        cloud.start_agent("one")
    wait_for(lambda: known_away(cloud) == str(AWAY))
    assert cloud.run(context).host == "two"
    for method in ("ping", "facts", "of_other_hosts"):
        driver.end_failures(method)
    cloud.start_agent("one")
    assert cloud.run(context).host == "one"


def test_upgraded_engine_is_shown_when_it_is_back(cloud, driver):
    facts = driver.host_facts.engine
    driver.replace_engine(replace(facts, version="28.5.2", api_version="1.51"))
    wait_for(lambda: (engine("one")["version"], engine("one")["api_version"]) == ("28.5.2", "1.51"))
