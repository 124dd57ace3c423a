# SPDX-License-Identifier: Apache-2.0
"""Read the state of this host's containers from Docker."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from docker import errors as docker_errors

from zun.container.docker.client import LABEL_HOST, LABEL_UUID
from zun.container.docker.kernel import DockerKernel
from zun.container.docker.state import runtime_state
from zun.container.driver.container import ContainerView
from zun.container.driver.state import RuntimeState


class DockerInspector(DockerKernel):
    def show(self, container: ContainerView) -> RuntimeState | None:
        with self._engine.translated("inspect", container):
            found = self._engine.find(container)
        return self.left_running(container) if found is None else runtime_state(found, container.status)

    def list(self) -> dict[str, RuntimeState]:
        """Inspect every object, because Docker's list has neither exit codes nor CPU sets."""
        api = self._engine.api
        states = {}
        with self._engine.translated("list containers"):
            label = f"{LABEL_HOST}={self.settings.host_label}"
            for entry in api.containers(all=True, filters={"label": [label, LABEL_UUID]}):
                try:
                    found = api.inspect_container(entry["Id"])
                except docker_errors.NotFound:
                    continue
                states[entry["Labels"][LABEL_UUID]] = runtime_state(found, None)
        return states

    def of_other_hosts(self) -> Mapping[str, AbstractSet[str]]:
        with self._engine.translated("list containers"):
            entries = self._engine.api.containers(all=True, filters={"label": [LABEL_HOST, LABEL_UUID]})
        found: dict[str, set[str]] = {}
        for labels in (entry["Labels"] for entry in entries):
            if not self._engine.owns(labels):
                found.setdefault(labels[LABEL_HOST], set()).add(labels[LABEL_UUID])
        return found
