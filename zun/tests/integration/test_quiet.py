# SPDX-License-Identifier: Apache-2.0
"""The interrupts of this machine leave the CPUs of containers of the real Docker, and come back."""

import os
import pathlib

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api
from zun.topology import CpuSet, discover
from zun.topology.files import cpu_map_in
from zun.topology.interrupts import interrupts

DEFAULT = pathlib.Path("/proc/irq/default_smp_affinity")
pytestmark = [
    pytest.mark.docker,
    pytest.mark.alone,
    pytest.mark.skipif(len(discover().cpus) < 2, reason="needs a CPU to leave and one to go to"),
    pytest.mark.skipif(not os.access(DEFAULT, os.W_OK), reason="the kernel's interrupts cannot be moved here"),
]
VERSION = {"OpenStack-API-Version": "container 1.51"}
DEDICATED = {"cpu": 1, "memory": 16, "cpu_policy": "dedicated"}


def asked():
    """Return interrupt -> the CPUs that it was given, of the device interrupts."""
    folders = {irq: pathlib.Path(f"/proc/irq/{irq}/smp_affinity_list") for irq in interrupts().allowed}
    return {irq: CpuSet(file.read_text().strip()) for irq, file in folders.items() if file.exists()}


def test_interrupts_leave_before_the_start_and_come_back_after_a_kill(on_docker):
    before, default = asked(), DEFAULT.read_text()
    service = on_docker(compute={"interrupts": "away"})
    service.start()
    api = Api(service.url)
    try:
        made = api.settled(api.run(**DEDICATED))
        assert made["status"] == "Running"
        cpus = CpuSet(made["cpuset_cpus"])
        [told] = api.request("POST", f"/hosts/{service.host}/audit", headers=VERSION).json()["isolation"]
        stuck = {int(irq) for irq in told["stuck"]}
        assert {irq for irq, where in asked().items() if where & cpus} <= stuck
        assert len(stuck) < len(before), "no interrupt could be moved"
        assert not cpu_map_in(DEFAULT.read_text().strip()) & cpus
        service.kill()
        assert not cpu_map_in(DEFAULT.read_text().strip()) & cpus
        service.start()
        api.request("DELETE", f"/containers/{made['uuid']}?force=true")
        wait_for(lambda: (asked(), DEFAULT.read_text()) == (before, default), 30)
    finally:
        api.delete_all()
