# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's huge pages."""

from collections.abc import Mapping

from zun.common import exceptions
from zun.container.driver.container import ContainerView
from zun.container.driver.hugepages import HUGE_PAGES_TARGET, HugePageView, PageStock
from zun.container.driver.state import RuntimeState
from zun.container.fake.kernel import PAGE_SIZES, InMemoryKernel


class InMemoryHugePages(InMemoryKernel):
    def limit_pages(self, container: ContainerView, state: RuntimeState, pages: Mapping[int, int]) -> None:
        with self._operation("limit_pages", container):
            found = self.runtime.objects.get(container.uuid)
            if found is None or not found.pid or found.pid != state.pid or not self.kernel.limits_pages:
                return
            limits = {size: pages.get(size, 0) * size * 1024 for size in PAGE_SIZES}
            used = self.kernel.pages_used(container.uuid)
            if any(used.get(size, 0) * size * 1024 > limit for size, limit in limits.items()):
                raise exceptions.Conflict(f"Container {found.uuid} uses more huge pages than {pages or 'none'}")
            found.page_limits = limits

    def huge_pages(self, container: ContainerView, state: RuntimeState) -> HugePageView | None:
        with self._operation("huge_pages", container):
            found = self.runtime.objects.get(container.uuid)
            if found is None or not found.pid or found.pid != state.pid:
                return None
            limits = found.page_limits or dict.fromkeys(PAGE_SIZES)
            mounted = next((each.page_kib for each in found.mounts if each.target == HUGE_PAGES_TARGET), None)
            return HugePageView(
                limits if self.kernel.limits_pages else None, self.kernel.huge_pages.get(container.uuid, {}), mounted
            )

    def page_stock(self) -> Mapping[int, Mapping[int, PageStock]]:
        with self._operation("page_stock", None):
            return self.kernel.page_stock
