# SPDX-License-Identifier: Apache-2.0
"""Containers on this machine, each compared with the kernel before a test gets to see it."""

import os
import pathlib
import signal
import time
from dataclasses import dataclass, field, replace
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


def _by_node(claim: dict[str, Any]) -> dict[int, int]:
    return {int(node): mib for node, mib in claim["memory_mib"].items()}


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


@dataclass(frozen=True, slots=True)
class Capsule:
    """A running capsule. The sandbox holds the claim; ``members`` are in order of starting, without withheld CPUs and
    amounts of memory, which the API shows of the whole claim only.
    """

    sandbox: Placed
    members: tuple[Placed, ...]


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
        claim = self._claim(uuid)
        placed, config = self._seen(uuid)
        if claim["cpu_policy"] == "dedicated":
            assert (str(placed.cpus), str(placed.mems)) == (claim["cpuset_cpus"], claim["cpuset_mems"])
            assert (str(placed.cpus), str(placed.mems)) == (shown["cpuset_cpus"], shown["cpuset_mems"])
            assert config["CpuQuota"] in (0, -1) and not config["NanoCpus"]  # -1 after a change: none either
        return replace(placed, withheld=CpuSet(claim["withheld"]), memory_mib=_by_node(claim))

    def capsule(self, uuid: str) -> "Capsule":
        """Return the capsule, if its sandbox runs as its claim says and its containers on the parts that the API shows.

        Needs microversion 1.51.
        """
        shown = self.settled_capsule(uuid)
        assert shown["status"] == "Running", shown["status_reason"]
        claim = self._claim(uuid)
        sandbox, _ = self._seen(uuid)
        assert str(sandbox.mems) == claim["cpuset_mems"]
        parts = {each["container"]: each["cpuset_cpus"] for each in claim["members"]}
        members = []
        for each in shown["containers"]:
            assert each["status"] == "Running", each["status_reason"]
            placed, config = self._seen(each["uuid"])
            assert str(placed.mems) == each["cpuset_mems"]
            assert placed.cpus <= sandbox.cpus and placed.mems <= sandbox.mems
            if each["cpu_policy"] == "dedicated":
                assert str(placed.cpus) == each["cpuset_cpus"] == parts[each["uuid"]]
                assert config["CpuQuota"] in (0, -1) and not config["NanoCpus"]
            members.append(placed)
        return Capsule(replace(sandbox, withheld=CpuSet(claim["withheld"]), memory_mib=_by_node(claim)), tuple(members))

    def ask_capsule(self, *containers: dict[str, Any], **spec: Any) -> str:
        """Ask for a capsule and return its uuid at once."""
        template = {"kind": "capsule", "metadata": {"name": "pod"}, "spec": {"containers": containers, **spec}}
        answer = self.api.request("POST", "/capsules", json={"template": template})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["uuid"])

    def settled_capsule(self, uuid: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            shown: dict[str, Any] = self.api.get(f"/capsules/{uuid}")
            return shown if shown["status"] in ("Running", "Stopped", "Error") else None

        return wait_for(look, PATIENCE)  # type: ignore[return-value]

    def delete_capsules(self) -> None:
        """Delete every capsule, and wait until all are gone."""
        for each in self.api.get("/capsules")["capsules"]:
            assert self.api.request("DELETE", f"/capsules/{each['uuid']}").status_code == 204
        wait_for(lambda: not self.api.get("/capsules")["capsules"], PATIENCE)

    def _claim(self, uuid: str) -> dict[str, Any]:
        (claim,) = (each for each in host_topology(self.api)["claims"] if each["container"] == uuid)
        return claim

    def _seen(self, uuid: str) -> tuple[Placed, dict[str, Any]]:
        """Return the container without its claim, and Docker's configuration of it, if Docker and kernel agree."""
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
        return Placed(uuid, cpus, mems, CpuSet(""), {}, pid, group), config

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


def one_more_refused(pid):
    """Let the process take its huge pages, wait until it has asked for one more; return whether that was refused."""

    def has_asked():
        os.kill(pid, signal.SIGUSR1)  # lost if it comes too early, harmless if too late
        return kernel.status(pid)["Name"] in (probes.REFUSED, probes.TOUCHED)

    wait_for(has_asked, PATIENCE)
    return kernel.status(pid)["Name"] == probes.REFUSED
