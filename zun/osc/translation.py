# SPDX-License-Identifier: Apache-2.0
"""Helpers to make the template of a capsule from a document of another program."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

ANYTHING = object()
"""In ``usual`` of ``Lost.others``: every value of the member is usual."""

RANGES: Mapping[str, tuple[int, int]] = {
    "initialDelaySeconds": (0, 86400),
    "periodSeconds": (1, 86400),
    "timeoutSeconds": (1, 60),
    "successThreshold": (1, 100),
    "failureThreshold": (1, 10000),
    "terminationGracePeriodSeconds": (0, 3600),
    "port": (1, 65535),
}
"""The lowest and the highest whole number that the service allows."""


class Translated(NamedTuple):
    """The template of a capsule, and what of the document it does not keep: each ``path: reason``."""

    template: dict[str, Any]
    lost: tuple[str, ...]


class Lost:
    """Collects in ``told`` what a capsule does not keep of one document. ``why`` maps a member to the reason.

    ``extensions`` is how members begin that mean nothing to the program of the document.
    """

    def __init__(self, why: Mapping[str, str], extensions: str | None = None) -> None:
        self.told: list[str] = []
        self._why, self._extensions = why, extensions

    def add(self, path: str, why: str) -> None:
        self.told.append(f"{path}: {why}")

    def others(
        self, given: Mapping[str, Any], path: str, kept: Collection[str], usual: Mapping[str, Any] | None = None
    ) -> None:
        """Note the members of ``given`` that are neither ``kept`` nor empty nor have their ``usual`` value."""
        for name, value in given.items():
            if name in kept or value in (None, {}, [], "") or (usual or {}).get(name) in (ANYTHING, value):
                continue
            if self._extensions and name.startswith(self._extensions):
                continue
            self.add(f"{path}{name}", self._why.get(name, "a capsule has no such member"))

    def within(self, value: Any, path: str, name: str) -> int:
        """Return a whole number of ``RANGES[name]``. A larger one is noted, and the highest returned in its place.

        Raise ValueError, with the path, for anything else.
        """
        highest = RANGES[name][1]
        if isinstance(value, int) and value > highest:
            self.add(path, f"it is {value}, and a capsule has {highest} at most")
            return highest
        return number(value, path, name)


def number(value: Any, path: str, name: str) -> int:
    """Return a whole number of ``RANGES[name]``. Raise ValueError, with the path, for anything else."""
    lowest, highest = RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise ValueError(f"{path} must be a whole number from {lowest} to {highest}, got {value!r}")
    return value


def mapping(given: Mapping[str, Any], name: str, at: str) -> Mapping[str, Any]:
    """Return the member ``name``, empty without one. Raise ValueError, with the path, if it is no mapping."""
    value = given.get(name) or {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{at}{name}: it must be a mapping")
    return value


def listed(given: Mapping[str, Any], name: str, at: str) -> Sequence[Any]:
    """Return the member ``name``, empty without one. Raise ValueError, with the path, if it is no list."""
    value = given.get(name) or ()
    if not isinstance(value, list | tuple):
        raise ValueError(f"{at}{name}: it must be a list")
    return value


def cpus(amount: Fraction) -> int | float:
    """Return a number of CPUs as JSON has it: a whole number if it is one."""
    return int(amount) if amount.denominator == 1 else float(amount)


def mib(count: Fraction) -> int:
    """Return so many bytes in MiB, rounded up."""
    return ceil(count / 2**20)
