# SPDX-License-Identifier: Apache-2.0
"""The capability to change the limits of a container."""

from typing import Protocol

from zun.container.driver.container import ContainerView


class Resources(Protocol):
    """Changes the limits of a container, running or not."""

    def update(
        self,
        container: ContainerView,
        *,
        cpu: float | None = None,
        memory: int | None = None,
        cpuset_cpus: str | None = None,
        cpuset_mems: str | None = None,
    ) -> None:
        """Change the given limits in one call to the runtime, and leave the limits that are None.

        ``cpu`` depends on the container's ``cpu_policy``: a weight or quota if shared, no limit if dedicated. Invalid
        for an empty cpuset, which Docker would accept and ignore. To unpin a container, send the full list of CPUs.
        """
        ...
