# SPDX-License-Identifier: Apache-2.0
"""Containers of a host that is down are placed elsewhere, and the host gives them up when it comes back."""

import pytest

from zun.common import exceptions
from zun.common.states import Kind
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db import services
from zun.objects.placement import held_plan
from zun.tests.fixtures import wait_for
from zun.tests.functional.departures import api, cloud

__all__ = ["api", "cloud"]

PAIR = {"cpu_policy": "dedicated", "cpu": 2.0, "memory": 512, "request": {"run": True}}
DOWN = {"host_is_down": True}


def evacuate(api, host="one", **body):
    return api.post(f"/v1/hosts/{host}/evacuate", body or DOWN)


def goes_down(cloud, host="one"):
    """End the agent without a goodbye to its containers, and let its heartbeat be seen as missing."""
    cloud.stop_agent(host)
    services.update(host, "zun-compute", {"forced_down": True})


def comes_back(cloud, host="one"):
    services.update(host, "zun-compute", {"forced_down": False})
    return cloud.start_agent(host)


def running_on(cloud, context, host, **more):
    """Run a container on the host, without its row saying that it was asked for there."""
    other = next(name for name in cloud.machines if name != host)
    services.update(other, "zun-compute", {"disabled": True})
    cloud.scheduler.table.catch_up()
    container = wait_for(lambda: _on(cloud.run(context, **{**PAIR, **more}), host))
    services.update(other, "zun-compute", {"disabled": False})
    return container


def _on(container, host):
    assert container.host in (host, None), container.host
    return container if container.host == host else None


def test_a_container_is_placed_elsewhere_and_given_up_by_its_host(cloud, context, api):
    container = running_on(cloud, context, "one")
    goes_down(cloud)
    answer = evacuate(api)
    assert answer.status == 200, answer.body
    assert answer.json == {
        "host": "one",
        "containers": [{"container": container.uuid, "name": container.name, "runs": True, "reason": None}],
    }
    now = wait_for(lambda: (row := db.get(container.uuid))["status"] == "Running" and row)
    assert (now["host"], now["request"]["evacuated"]) == ("two", ["one"])
    assert cloud.agents["two"].tracker.usage.claim(container.uuid).cpus == held_plan(now).cpus
    assert [each["action"] for each in db_actions.of_container(container.uuid)][:1] == ["create"]
    assert db_actions.of_container(container.uuid)[0]["message"] is None
    old = cloud.drivers["one"]
    assert old.show(container) is not None
    agent = comes_back(cloud)
    assert old.show(container) is None
    assert agent.tracker.usage.owners == ()
    assert cloud.drivers["two"].show(container).pid


def test_a_host_starts_although_it_cannot_remove_what_was_taken(cloud, context, api, caplog):
    running_on(cloud, context, "one")
    goes_down(cloud)
    evacuate(api)
    cloud.drivers["one"].fail("delete", exceptions.DockerError(error="no"), times=1)
    comes_back(cloud)
    assert "could not be removed" in caplog.text
    assert cloud.agents["one"].tracker.usage.owners == ()


def test_an_agent_that_was_only_cut_off_ends_what_was_taken(cloud, context, api):
    """It holds the claim in memory. Nobody gets the CPUs before the processes are gone."""
    container = running_on(cloud, context, "one")
    services.update("one", "zun-compute", {"forced_down": True})
    assert evacuate(api).status == 200
    wait_for(lambda: db.get(container.uuid)["status"] == "Running")
    agent, old = cloud.agents["one"], cloud.drivers["one"]
    held = []
    old.before("delete", lambda _: held.append(agent.tracker.usage.claim(container.uuid) is not None))
    cloud.compared("one", lambda: agent.tracker.usage.claim(container.uuid) is None)
    assert (held, old.show(container)) == ([True], None)


def test_a_stopped_container_is_only_made_elsewhere(cloud, context, api):
    container = running_on(cloud, context, "one")
    cloud.compute_api.stop(context, container)
    wait_for(lambda: db.get(container.uuid)["status"] == "Stopped")
    goes_down(cloud)
    assert evacuate(api).json["containers"][0]["runs"] is False
    assert wait_for(lambda: (row := db.get(container.uuid))["status"] == "Created" and row)["host"] == "two"


def test_a_cloud_that_is_full_leaves_the_container_in_error(cloud, context, api):
    container = running_on(cloud, context, "one", cpu=4.0)
    cloud.run(context, **{**PAIR, "cpu": 4.0})
    goes_down(cloud)
    assert evacuate(api).status == 200
    now = wait_for(lambda: (row := db.get(container.uuid))["status"] == "Error" and row)
    assert "No valid host" in now["status_reason"]
    assert (now["host"], now["cpuset"]) == (None, None)
    comes_back(cloud)
    assert cloud.drivers["one"].show(container) is None


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"request": {"run": True, "host": "one"}}, "it was asked for on this host"),
        ({"mounts": [{"type": "local", "destination": "/d", "size_mib": 1024}]}, "it mounts volumes"),
        ({"kind": Kind.CAPSULE}, "it is a capsule"),
        ({"status": "Deleting"}, "its status is Deleting"),
    ],
)
def test_what_can_live_only_there_stays(cloud, context, api, values, reason):
    container = running_on(cloud, context, "one")
    goes_down(cloud)
    db.update(container.uuid, values)
    (told,) = evacuate(api).json["containers"]
    assert told["reason"].startswith(reason)
    assert db.get(container.uuid)["host"] == "one"


def test_a_host_that_is_up_is_not_evacuated(cloud, context, api):
    container = running_on(cloud, context, "one")
    refused = evacuate(api)
    assert refused.status == 409 and "Host one is up" in refused.error["detail"]
    assert db.get(container.uuid)["host"] == "one"


@pytest.mark.parametrize("body", [{"host_is_down": False}, {"dry_run": False}])
def test_the_operator_gives_a_word(cloud, context, api, body):
    goes_down(cloud)
    refused = evacuate(api, **body)
    assert refused.status == 400 and refused.error["detail"].startswith("host_is_down: it must be true")


def test_a_dry_run_takes_nothing(cloud, context, api):
    container = running_on(cloud, context, "one")
    answer = evacuate(api, dry_run=True)
    assert answer.json["containers"] == [
        {"container": container.uuid, "name": container.name, "runs": True, "reason": None}
    ]
    assert db.get(container.uuid)["status"] == "Running"


def test_an_unknown_host(cloud, api):
    assert evacuate(api, "nobody").status == 404
