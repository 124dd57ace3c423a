# SPDX-License-Identifier: Apache-2.0
"""The capability to limit and read huge pages, and the values of huge pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from zun.container.driver.container import ContainerView
from zun.container.driver.state import RuntimeState

#: Folder of a container where its huge pages are mounted.
HUGE_PAGES_TARGET = "/dev/hugepages"


@dataclass(frozen=True, slots=True)
class HugePageView:
    """The huge pages of a running container as the kernel sees them. Sizes of pages are in KiB.

    - ``limits`` is the most bytes that the container can take, by page size, None for a size without a limit. The
      whole mapping is None if the kernel cannot limit huge pages, because the hugetlb controller is missing.
    - ``used`` is the number of pages in use by memory node and page size, for example ``{0: {2048: 3}}``. It is None
      if the kernel does not count pages by node.
    - ``mounted`` is the page size of the file system at :data:`HUGE_PAGES_TARGET`, None without one.
    """

    limits: Mapping[int, int | None] | None
    used: Mapping[int, Mapping[int, int]] | None
    mounted: int | None


@dataclass(frozen=True, slots=True)
class PageStock:
    """The huge pages of one size on one memory node: all of them, and those that nobody uses."""

    total: int
    free: int


class HugePages(Protocol):
    """Limits and reads the huge pages of containers."""

    def limit_pages(self, container: ContainerView, state: RuntimeState, pages: Mapping[int, int]) -> None:
        """Limit the container to these huge pages, by size in KiB, and to none of every other size.

        The kernel forgets the limits when the process of ``state`` ends, so they are set after each start. Nothing
        happens without a process. Where the kernel cannot limit huge pages, the driver logs this once and goes on.

        Conflict if the container uses more pages than that. DockerError if the kernel does not show the new limits.
        """
        ...

    def huge_pages(self, container: ContainerView, state: RuntimeState) -> HugePageView | None:
        """Return the huge pages of the container, or None if the process of ``state`` is gone.

        DockerError if the kernel's files cannot be read.
        """
        ...

    def page_stock(self) -> Mapping[int, Mapping[int, PageStock]]:
        """Return the huge pages of the host by memory node and size in KiB, sizes without pages left out."""
        ...
