# SPDX-License-Identifier: Apache-2.0
"""One agent on the real Docker daemon and the real kernel, everything else in this process."""

import pathlib
import time
import uuid

import docker

from zun.common.context import RequestContext
from zun.compute.host.machine import discovered
from zun.container.docker import DockerDriver
from zun.container.docker.client import Settings
from zun.container.docker.kernel import locate, steps_below
from zun.network.fake import InMemoryNetworks
from zun.tests.functional.cloud import Cloud


def group_of(pid, controller="cpuset"):
    """The directory of the process's control group of CPUs."""
    groups, mounts = (pathlib.Path("/proc", each).read_text() for each in (f"{pid}/cgroup", "self/mountinfo"))
    mount, group = locate(controller, groups, mounts)
    return pathlib.Path(mount.mountpoint, steps_below(mount, group))


class Host:
    """One agent on the real daemon, everything else in this process."""

    def __init__(self, url, wrapped=lambda driver: driver, volumes=None, **options):
        self.name = f"test-{uuid.uuid4().hex[:8]}"
        self.engine = docker.APIClient(url, version="auto")
        self.cloud = Cloud({}, compute__audit_interval=0, **options)
        self.cloud.drivers[self.name] = self.driver = wrapped(
            DockerDriver(Settings(url, self.name, network_mode="none"))
        )
        self.cloud.networks[self.name] = InMemoryNetworks(own_default=False)
        self.cloud.machines[self.name] = discovered()
        if volumes is not None:  # else they are in memory
            self.cloud.volumes[self.name] = volumes
        self.cloud.start_agent(self.name)
        self.context = RequestContext(user_id="alice", project_id="demo", roles=["member"])
        self.began = int(time.time())
        self.strays = []

    def run(self, **fields):
        container = self.cloud.run(self.context, **fields)
        assert container.status == "Running", container.status_reason
        return container

    def audit(self, repair=False):
        """Return the findings of an audit, without foreign processes that the test did not start."""
        answer = self.cloud.compute_api.audit(self.context, self.name, repair=repair)
        return [
            each
            for each in answer["findings"]
            if each["code"] != "foreign" or any(stray in each["detail"] for stray in self.strays)
        ]

    def told(self, repair=False):
        return [(each["container"], each["code"], each["layer"], each["repaired"]) for each in self.audit(repair)]

    def pid(self, container):
        return self.engine.inspect_container(f"zun-{container.uuid}")["State"]["Pid"]

    def config(self, container):
        return self.engine.inspect_container(f"zun-{container.uuid}")["HostConfig"]["CpusetCpus"]

    def cpus_file(self, container):
        return group_of(self.pid(container)) / "cpuset.cpus"

    def quota(self, container):
        """Microseconds of CPU time that it may use in 0.1 s, None without a limit."""
        group = group_of(self.pid(container), "cpu")
        one, two = group / "cpu.cfs_quota_us", group / "cpu.max"
        text = (two.read_text() if two.exists() else one.read_text()).split()[0]
        return None if text in ("max", "-1") else int(text)

    def stray(self, cpus=None):
        """A container that is not of this service. Gives its id."""
        config = self.engine.create_host_config(network_mode="none", cpuset_cpus=cpus)
        made = self.engine.create_container("zun-demo", ["sleep", "1000"], host_config=config)["Id"]
        self.strays.append(made[:12])
        self.engine.start(made)
        return made

    def updates(self):
        """Uuids of the update events that Docker had for this host's containers."""
        stream = self.engine.events(
            since=self.began, until=int(time.time()) + 1, decode=True,
            filters={"event": "update", "type": "container", "label": f"zun.host={self.name}"},
        )  # fmt: skip
        return [event["Actor"]["Attributes"]["zun.uuid"] for event in stream]

    def clean(self):
        self.cloud.stop()
        for each in self.engine.containers(all=True, filters={"label": f"zun.host={self.name}"}):
            self.engine.remove_container(each["Id"], force=True)
        for each in self.strays:
            self.engine.remove_container(each, force=True)
        self.engine.close()
