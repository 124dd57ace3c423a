# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's view of containers."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from zun.container.driver.container import ContainerView
from zun.container.driver.inspector import KernelView
from zun.container.driver.state import RuntimeState
from zun.container.fake.kernel import InMemoryKernel


class InMemoryInspector(InMemoryKernel):
    def show(self, container: ContainerView) -> RuntimeState | None:
        with self._operation("show", container):
            found = self.runtime.objects.get(container.uuid)
            if found is None or found.host != self.host_facts.name:
                return None
            return found.state(container.status)

    def list(self) -> dict[str, RuntimeState]:
        with self._operation("list", None):
            return {uuid: each.state(None) for uuid, each in self.runtime.by_host[self.host_facts.name].items()}

    def of_other_hosts(self) -> Mapping[str, AbstractSet[str]]:
        with self._operation("of_other_hosts", None):
            here = self.host_facts.name
            return {name: {*found} for name, found in self.runtime.by_host.items() if found and name != here}

    def kernel_view(self, container: ContainerView, state: RuntimeState) -> KernelView | None:
        with self._operation("kernel_view", container):
            return self._kernel_view(container.uuid, state.pid)

    def use_all_cpus(self, container: ContainerView, state: RuntimeState) -> None:
        """Do nothing: processes in memory inherit nothing."""
