# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's volumes."""

from typing import Any

from zun.container.fake.operations import OnRuntime


class InMemoryVolumes(OnRuntime):
    """Records removals: ``removed_volumes`` has the names in the order of the requests."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.removed_volumes: list[str] = []

    def remove_volume(self, name: str) -> None:
        with self._operation("remove_volume", None):
            self.removed_volumes.append(name)
