# SPDX-License-Identifier: Apache-2.0
"""The Podman driver: the capabilities of the Docker driver over libpod, and what Podman does otherwise."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from docker import errors as docker_errors
from oslo_config import cfg

from zun.common import exceptions
from zun.common.processes import FIELDS
from zun.container.docker.client import Settings, object_name
from zun.container.docker.create import restart_policy
from zun.container.docker.driver import DockerDriver
from zun.container.docker.kernel import kernel_view
from zun.container.driver.container import ContainerView
from zun.container.driver.facts import HostFacts
from zun.container.podman.client import LIMITS, PodmanEngine
from zun.topology import CpuSet
from zun.topology.files import text_of


class PodmanDriver(DockerDriver):
    """Runs containers on one Podman service, which runs as root. Threads may share the driver."""

    engine_class = PodmanEngine
    joins_at_creation = True

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Return the driver that the operator configured: the entry point of ``[compute] container_driver``."""
        return cls(podman_settings(conf, connections=conf.compute.workers + 8))

    def facts(self) -> HostFacts:
        return replace(super().facts(), runs_healthchecks=has_systemd(self.settings.root))

    def start(self, container: ContainerView) -> None:
        with self._engine.translated("start", container):
            self._keep_policy(container)
        super().start(container)

    def stop(self, container: ContainerView, timeout: int | None = None) -> None:
        with self._engine.translated("stop", container):
            if not self._left_loop(container):
                super().stop(container, timeout)

    def kill(self, container: ContainerView, signal: str | None = None) -> None:
        if signal is not None and not is_signal(signal):
            raise exceptions.InvalidValue(f"'{signal}' is no signal. Give a name such as SIGTERM.")
        with self._engine.translated("kill", container):
            if not self._left_loop(container):
                super().kill(container, signal)

    def reboot(self, container: ContainerView, timeout: int | None = None) -> None:
        with self._engine.translated("restart", container):
            self._keep_policy(container)
        super().reboot(container, timeout)

    def _left_loop(self, container: ContainerView) -> bool:
        """Return whether the container waited for a restart, and end this loop.

        Podman takes a stop of such a container for done, and starts the process again. So the policy goes until the
        next start, see ``_keep_policy``.
        """
        name, api = object_name(container.uuid), self._engine.api
        if not api.inspect_container(name)["State"]["Restarting"]:
            return False
        api.set_restart_policy(name, {"Name": "no"})
        return True

    def _keep_policy(self, container: ContainerView) -> None:
        """Give the object the restart policy of its container, which the end of a loop took away."""
        if container.restart_policy:
            name, policy = object_name(container.uuid), restart_policy(container, container.restart_policy)
            if self._engine.api.inspect_container(name)["HostConfig"]["RestartPolicy"]["Name"] != policy["Name"]:
                self._engine.api.set_restart_policy(name, policy)

    def _lift(self, name: str) -> None:
        return  # Podman has one limit of CPU time, which the update removes

    def _updated(self, name: str, change: Mapping[str, Any]) -> Any:
        """Update the container. Write its last good limits if the kernel refuses the new ones.

        Podman keeps what the kernel refused: without this, each later update would fail, and so would the next start.
        """
        before = self._engine.api.inspect_container(name)
        self._check_present(change)
        try:
            return super()._updated(name, change)
        except docker_errors.APIError:
            kept = {argument: before["HostConfig"].get(member) for argument, member in LIMITS.items()}
            view = kernel_view(self.settings.root, before["State"]["Pid"], before["Id"])
            if view is not None:
                kept |= {"cpuset_cpus": str(view.cgroup_cpus), "cpuset_mems": str(view.cgroup_mems)}
            super()._updated(name, kept)
            raise

    def _check_present(self, change: Mapping[str, Any]) -> None:
        """Raise APIError in Docker's words for CPUs or memory nodes that the host lacks: Podman accepts any."""
        for argument, what, file in (
            ("cpuset_cpus", "CPUs", "cpu/online"),
            ("cpuset_mems", "memory nodes", "node/online"),
        ):
            wanted = change.get(argument)
            present = Path(self.settings.root, "sys/devices/system", file).read_text().strip()
            if wanted and not CpuSet(wanted) <= CpuSet(present):
                reason = f"Requested {what} are not available - requested {wanted}, available: {present}"
                raise docker_errors.APIError(reason, explanation=reason)

    def _rows(self, name: str) -> Sequence[Sequence[str]]:
        """Return the lines of the host's ps: Podman's own list has ids of the container, and not all of the fields."""
        pids = [pid for (pid,) in self._engine.api.top(name, "hpid")["Processes"]]
        command = ["ps", "-o", ",".join(FIELDS), "-p", ",".join(pids)]
        told = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
        return [line.split(None, len(FIELDS) - 1) for line in told.splitlines()[1:]]


def has_systemd(root: str) -> bool:
    """Return whether systemd is the first process of the machine. Its timers run Podman's health checks."""
    return text_of(Path(root, "proc/1/comm")).strip() == "systemd"


def is_signal(text: str) -> bool:
    """Return whether ``text`` is the name or the number of a signal: Podman does not tell it from other failures."""
    if text.isdigit():
        return 0 < int(text) <= signal.SIGRTMAX
    name = text.upper().removeprefix("SIG")
    return f"SIG{name}" in signal.Signals.__members__ or name.startswith(("RTMIN", "RTMAX"))


def podman_settings(conf: cfg.ConfigOpts, *, connections: int) -> Settings:
    """Return the settings of the group ``docker`` for containers, with the socket of Podman."""
    return replace(Settings.from_conf(conf, connections=connections), api_url=conf.podman.api_url, tls=None)
