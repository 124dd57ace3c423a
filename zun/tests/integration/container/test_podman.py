# SPDX-License-Identifier: Apache-2.0
"""Networks of a real Podman, which ``tools/engine.sh SUITE-podman`` starts."""

import os
import uuid

import pytest

from zun.common import exceptions
from zun.common.states import Status
from zun.common.subnets import Pool
from zun.container.docker.client import Settings
from zun.container.podman import PodmanDriver
from zun.container.podman.client import PodmanEngine
from zun.network.podman import PodmanNetworks
from zun.tests.integration.network_samples import Port
from zun.tests.unit.container.samples import Sample

pytestmark = pytest.mark.skipif("PODMAN_HOST" not in os.environ, reason="PODMAN_HOST names no Podman")


def test_networks_of_a_container(engine):
    settings = Settings(os.environ["PODMAN_HOST"], f"test-{uuid.uuid4().hex[:8]}")
    driver, networks = PodmanDriver(settings), PodmanNetworks(PodmanEngine(settings), Pool("10.231.0.0/16", 24, "x"))
    container, port = Sample(), Port()

    def addresses() -> list[str]:
        found = engine.inspect_container(f"zun-{container.uuid}")["NetworkSettings"]["Networks"]
        return [each["IPAddress"] for each in found.values()]

    try:
        driver.create(container, cpuset_cpus="0", cpuset_mems="0", plug=networks.prepare(port))
        networks.plug(container, [port])
        driver.start(container)
        for ports, expected in (([port], [port.ipv4]), ([], []), ([port], [port.ipv4])):
            networks.plug(container, ports)
            assert addresses() == expected
        with pytest.raises(exceptions.Conflict, match=port.network_uuid):
            networks.remove(port.network_uuid)
        networks.plug(container, [])
        networks.remove(port.network_uuid)
        driver.reboot(container, 0)
        assert driver.show(container).status is Status.RUNNING
    finally:
        driver.delete(container, force=True)
        networks.remove(port.network_uuid)
    assert networks.present() == set()
