# SPDX-License-Identifier: Apache-2.0
"""A program in a container of the real Docker sees its new CPUs after a resize, and gets its signal."""

import json
import time

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api
from zun.topology import CpuSet, discover

pytestmark = [
    pytest.mark.docker,
    pytest.mark.alone,
    pytest.mark.skipif(len(discover().cpus) < 2, reason="needs a CPU to grow by"),
]
VERSION = {"OpenStack-API-Version": "container 1.51"}
#: Prints the file at the start and at each signal.
PROGRAM = "trap 'echo again; cat /run/zun/cpuset.json' HUP; cat /run/zun/cpuset.json; while :; do sleep 0.1; done"


def test_program_sees_a_resize_in_the_file_and_gets_its_signal(on_docker):
    service = on_docker()
    service.start()
    api = Api(service.url)
    try:
        body = {
            "image": "zun-demo", "command": ["sh", "-c", PROGRAM],
            "cpu": 1, "memory": 32, "cpu_policy": "dedicated", "cpuset_signal": "SIGHUP",
        }  # fmt: skip
        made = api.settled(api.request("POST", "/containers?run=true", json=body, headers=VERSION).json()["uuid"])
        assert made["status"] == "Running", made["status_reason"]
        uuid, before = made["uuid"], made["cpuset_cpus"]

        def lines():
            return api.request("GET", f"/containers/{uuid}/logs", headers=VERSION).json().splitlines()

        wait_for(lambda: len(lines()) == 1, 20)
        assert json.loads(lines()[0])["cpus"] == before
        began = time.monotonic()
        larger = api.request("PATCH", f"/containers/{uuid}", json={"cpu": 2}, headers=VERSION).json()
        wait_for(lambda: len(lines()) == 3, 20)
        print(f"told after {time.monotonic() - began:.2f} s")
        word, content = lines()[1:]
        assert (word, json.loads(content)["cpus"]) == ("again", larger["cpuset_cpus"])
        assert CpuSet(larger["cpuset_cpus"]) > CpuSet(before) and json.loads(content)["generation"] == 2
        refused = api.request("POST", f"/containers/{uuid}/execute?command=touch+/run/zun/x", headers=VERSION).json()
        assert "Read-only" in refused["output"]
    finally:
        api.delete_all()
