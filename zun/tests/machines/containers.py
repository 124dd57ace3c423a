# SPDX-License-Identifier: Apache-2.0
"""Containers on this machine, each compared with the kernel before a test gets to see it."""

import os
import pathlib
import signal
import time
from dataclasses import dataclass, field
from typing import Any

import docker

from zun.container.docker.kernel import kernel_view
from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api
from zun.tests.machines import kernel, probes
from zun.topology import CpuSet

IMAGE = "numaprobe"
PATIENCE = 300
"""Seconds for anything. The machine may be emulated, and the host of that busy."""


class SlowApi(Api):
    """The API, asked four times a second at most: who waits in a loop takes the emulated CPUs away from the others."""

    patience = PATIENCE

    def get(self, path: str) -> Any:
        time.sleep(0.25)
        return super().get(path)


def host_topology(api: Api) -> dict[str, Any]:
    (host,) = (each["hostname"] for each in api.get("/hosts")["hosts"])
    shown: dict[str, Any] = api.get(f"/hosts/{host}/topology")
    return shown


@dataclass(frozen=True, slots=True)
class Placed:
    """A running container: what the API says it holds, and its first process."""

    uuid: str
    cpus: CpuSet
    mems: CpuSet
    withheld: CpuSet
    memory_mib: dict[int, int] = field(hash=False)
    pid: int
    group: pathlib.Path


class Containers:
    """Runs containers of the image ``numaprobe`` on this machine."""

    def __init__(self, api: Api, engine: docker.APIClient) -> None:
        self.api, self._engine = api, engine

    def ask(self, **fields: Any) -> str:
        """Ask for one and return its uuid at once."""
        return self.api.run(**{"image": IMAGE, "command": probes.IDLE, **fields})

    def shared(self, **fields: Any) -> Placed:
        return self.look(self.ask(**{"cpu": 0.5, **fields}))

    def dedicated(self, cpu: int, **fields: Any) -> Placed:
        return self.look(self.ask(cpu_policy="dedicated", cpu=cpu, **fields))

    def refusal(self, cpu: int, **fields: Any) -> str:
        """The reason why a dedicated container was refused."""
        shown = self.api.settled(self.ask(cpu_policy="dedicated", cpu=cpu, **fields), PATIENCE)
        assert (shown["status"], shown["cpuset_cpus"], shown["host"]) == ("Error", None, None), shown
        return str(shown["status_reason"])

    def look(self, uuid: str) -> Placed:
        """The container, when it runs as it should: claim, Docker, control group and process say the same."""
        shown = self.api.settled(uuid, PATIENCE)
        assert shown["status"] == "Running", shown["status_reason"]
        (claim,) = (each for each in host_topology(self.api)["claims"] if each["container"] == uuid)
        seen = self._engine.inspect_container(f"zun-{uuid}")
        pid, container_id = seen["State"]["Pid"], seen["Id"]
        group = kernel.group_of(pid)
        assert container_id in str(group)
        cpus, mems = kernel.effective(group)
        for each in kernel.members(group):
            assert all(kernel.allowed(task) == (cpus, mems) for task in kernel.threads(each))
        config = seen["HostConfig"]
        assert (CpuSet(config["CpusetCpus"]), CpuSet(config["CpusetMems"])) == (cpus, mems)
        view = kernel_view("/", pid, container_id)
        assert view is not None
        assert (view.cpus, view.mems, view.cgroup_cpus, view.cgroup_mems) == (cpus, mems, cpus, mems)
        if claim["cpu_policy"] == "dedicated":
            assert (str(cpus), str(mems)) == (claim["cpuset_cpus"], claim["cpuset_mems"])
            assert (str(cpus), str(mems)) == (shown["cpuset_cpus"], shown["cpuset_mems"])
            assert config["CpuQuota"] in (0, -1) and not config["NanoCpus"]  # -1 after a change: none either
        held = {int(node): mib for node, mib in claim["memory_mib"].items()}
        return Placed(uuid, cpus, mems, CpuSet(claim["withheld"]), held, pid, group)

    def delete(self, uuid: str) -> None:
        """Delete it by force and wait until it is gone."""
        assert self.api.request("DELETE", f"/containers/{uuid}?force=true").status_code == 204
        wait_for(lambda: all(each["uuid"] != uuid for each in self.api.get("/containers")["containers"]), PATIENCE)

    def topology(self) -> dict[str, Any]:
        """The host as administrators see it."""
        return host_topology(self.api)


def when_touched(pid):
    """Wait until the process has touched its memory; return the MiB of anonymous memory by node."""

    def touched():
        # Lost if it comes too early, harmless if too late: the first process of a container ignores what it did not
        # ask for.
        os.kill(pid, signal.SIGUSR1)
        return kernel.status(pid)["Name"] == probes.TOUCHED

    wait_for(touched, PATIENCE)
    return kernel.anonymous_mib(pid)
