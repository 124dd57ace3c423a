# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's audit of where containers run."""

from collections.abc import Callable, Sequence

from zun.container.driver.audit import DeviceAccess, Intruder, PinningView
from zun.container.driver.container import ContainerView
from zun.container.driver.devices import ContainerDevices
from zun.container.driver.state import RuntimeState
from zun.container.fake.kernel import InMemoryKernel, still_given
from zun.topology import CpuSet


class InMemoryAudit(InMemoryKernel):
    def pinning_view(self, container: ContainerView, state: RuntimeState) -> PinningView | None:
        with self._operation("pinning_view", container):
            seen = self._kernel_view(container.uuid, state.pid)
            return None if seen is None else self.kernel.view(container.uuid, state.pid, seen)

    def device_access(self, container: ContainerView, state: RuntimeState, devices: ContainerDevices) -> DeviceAccess:
        with self._operation("device_access", container):
            return self.kernel.device_access(still_given(devices), self._find(container))

    def intruders(
        self, cpus: CpuSet, known: Callable[[str], bool], *, processes: bool = True, unplaced: bool = False
    ) -> Sequence[Intruder]:
        with self._operation("intruders", None):
            return self.kernel.found(cpus, known, processes=processes)
