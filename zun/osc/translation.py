# SPDX-License-Identifier: Apache-2.0
"""What the templates of capsules that are made from documents of others have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

MIB = 1 << 20
ANYTHING = object()
"""A usual value that every value equals."""


class Translated(NamedTuple):
    """The template of a capsule, and what of the document it does not keep: each ``path: reason``."""

    template: dict[str, Any]
    lost: tuple[str, ...]


class Lost:
    """What one document loses. ``told`` grows while the document is read. ``why`` has the reasons by member."""

    def __init__(self, why: Mapping[str, str]) -> None:
        self.told: list[str] = []
        self._why = why

    def add(self, path: str, why: str) -> None:
        self.told.append(f"{path}: {why}")

    def others(
        self, given: Mapping[str, Any], path: str, kept: Collection[str], usual: Mapping[str, Any] | None = None
    ) -> None:
        """Note the members of ``given`` that are neither ``kept`` nor empty nor have their ``usual`` value."""
        for name, value in given.items():
            if name in kept or value in (None, {}, [], "") or (usual or {}).get(name) in (ANYTHING, value):
                continue
            self.add(f"{path}{name}", self._why.get(name, "a capsule has no such member"))
