# SPDX-License-Identifier: Apache-2.0
"""CPUs that an isolation grade keeps beside the CPUs of a container, on one cell."""

from __future__ import annotations

from zun.topology.view import CacheView, CpuView


def may_keep(cell: CpuView, cache: CacheView, held: int, keep: str) -> bool:
    """Return whether one container can have all of this L3 group (``keep`` is ``node``: of its cell) to itself.

    ``held`` is the mask of the CPUs that dedicated containers hold.
    """
    if keep == "node":
        return not cell.exposed and not cell.online & held
    return cache.kept > 0 and not cache.mask & held


def kept_with(cell: CpuView, cpus: int, isolation: str) -> int | None:
    """Return the CPUs (mask) that a container with ``cpus`` must hold for the grade, ``cpus`` included.

    Return None if the grade cannot be reached with them: a sibling, or a part of the L3 cache or cell, is out of reach
    for every container. Example: CPU 0 of core 0-1 with the grade ``core`` must hold 0b11.
    """
    if not cpus or isolation in ("thread", "isolated"):
        return cpus
    kept = 0
    for core in cell.cores:
        if core & cpus:
            if core not in cell.whole:
                return None
            kept |= core
    if isolation == "node":
        return None if cell.exposed else kept | cell.everyone
    for cache in cell.caches if isolation == "l3" else ():
        if cache.mask & cpus:
            if not cache.kept:
                return None
            kept |= cache.kept
    return kept


def kept_by(cell: CpuView, cpus: int, keep: str) -> int:
    """Return all CPUs (mask) of the L3 groups (``keep`` is ``node``: of the cell) that have a CPU of ``cpus``."""
    if keep == "node":
        return cell.everyone
    kept = 0
    for cache in cell.caches:
        if cache.mask & cpus:
            kept |= cache.kept
    return kept
