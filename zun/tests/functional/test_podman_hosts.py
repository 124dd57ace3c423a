# SPDX-License-Identifier: Apache-2.0
"""A cloud of Neutron with a host of Docker and a host of Podman: nobody is sent to a host that lacks what is needed."""

from dataclasses import replace

import pytest

from zun.api.creation import host_hints
from zun.api.settings import Settings
from zun.common import traits
from zun.container.driver.facts import EngineFacts
from zun.container.fake import DEFAULT_FACTS, InMemoryDriver
from zun.db import compute_nodes
from zun.network.fake import InMemoryNetworks
from zun.tests.functional.cloud import Cloud, machine

ENGINE = EngineFacts("Podman", "5.4.2", runtime="crun 1.21")
PODMAN = replace(DEFAULT_FACTS, runtimes=["crun"], runs_healthchecks=False, engine=ENGINE)


class Networks(InMemoryNetworks):
    """Networks of Neutron, as far as the scheduler is concerned."""

    joins_neutron = True


@pytest.fixture
def cloud(database):
    """The host of Podman has more room, so that it is chosen for whatever may run there."""
    with Cloud({}) as cloud:
        cloud.machines |= {"docker": machine(cells=1), "podman": machine(cells=2)}
        cloud.drivers["podman"], cloud.networks["docker"] = InMemoryDriver(PODMAN), Networks()
        for host in cloud.machines:
            cloud.start_agent(host)
        yield cloud


def settings(cloud, **options):
    return replace(Settings.from_conf(cloud.conf), **options)


def test_host_says_what_it_lacks(cloud):
    told = {host: set(compute_nodes.find(host)["traits"]) & {traits.NEUTRON, traits.NO_HEALTHCHECKS}
            for host in ("docker", "podman")}  # fmt: skip
    assert told == {"docker": {traits.NEUTRON}, "podman": {traits.NO_HEALTHCHECKS}}


@pytest.mark.parametrize(
    ("needs", "fields", "host"),
    [
        pytest.param({}, {}, "podman", id="nothing-special"),
        pytest.param({}, {"runtime": "crun"}, "podman", id="runtime-of-podman"),
        pytest.param({}, {"runtime": "runc"}, "docker", id="another-runtime"),
        pytest.param({"neutron": True}, {}, "docker", id="neutron"),
        pytest.param({"healthcheck": {"test": "true"}}, {}, "docker", id="health-check"),
        pytest.param({"neutron": True, "healthcheck": {"test": "true"}}, {}, "docker", id="both"),
    ],
)
def test_container_runs_where_it_can(cloud, context, needs, fields, host):
    check = needs.get("healthcheck")
    hints = host_hints(settings(cloud, neutron=needs.get("neutron", False)), check)
    made = cloud.run(context, request={"run": True, "hints": hints}, healthcheck=check, **fields)
    assert (made.host, made.status) == (host, "Running")


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ({"neutron": True}, "it lacks CUSTOM_ZUN_NEUTRON"),
        ({"healthcheck": {"test": "true"}}, "it has CUSTOM_ZUN_NO_HEALTHCHECKS, which is forbidden"),
    ],
)
def test_without_another_host_the_reason_is_told(cloud, context, needs, reason):
    hints = host_hints(settings(cloud, neutron=needs.get("neutron", False)), needs.get("healthcheck"))
    made = cloud.run(context, request={"run": True, "host": "podman", "hints": hints})
    assert made.status == "Error" and made.host is None
    assert reason in made.status_reason
