# SPDX-License-Identifier: Apache-2.0
"""Decide whether a container may move to another place of its host. No I/O."""

from collections.abc import Mapping
from typing import Any

from zun.common import exceptions
from zun.common.units import MIB
from zun.topology import CpuSet, Plan
from zun.topology.ranges import MALFORMED

LEFT_PERCENT = 1.0
"""Percent of a container's memory that may stay on its old nodes, for example because other programs use it too."""


def planned(old: Plan, record: Mapping[str, Any]) -> Plan:
    """Return the plan in ``record`` for a container that holds ``old``. Raises Invalid for one that is not a move.

    A move changes the place of a dedicated container without devices, never its size.
    """
    try:
        new = Plan.from_dict(record)
    except MALFORMED as exc:
        raise exceptions.Invalid(f"The plan of the move cannot be read: {exc}.") from exc
    if not old.dedicated or old.uses_pool or old.devices:
        raise exceptions.Invalid("Only a dedicated container without devices can be moved on its host.")
    if _size(new) != _size(old):
        raise exceptions.Invalid(f"The plan of the move has another size than the container: {_told(new, old)}.")
    return new


def is_at(old: Plan, new: Plan) -> bool:
    """Return whether a container that holds ``old`` is where ``new`` leads."""
    return (old.dedicated_cpus, old.mems) == (new.dedicated_cpus, new.mems)


def check_memory(mems: CpuSet, anonymous: Mapping[int, int]) -> None:
    """Raise Conflict if memory of a moved container stayed on other nodes than ``mems``.

    ``anonymous`` is the memory by node in bytes that only a move takes along.
    """
    left = {node: size for node, size in anonymous.items() if size and node not in mems}
    if 100 * sum(left.values()) <= LEFT_PERCENT * sum(anonymous.values()):
        return
    where = ", ".join(f"{-(-size // MIB)} MiB on memory node {node}" for node, size in sorted(left.items()))
    raise exceptions.Conflict(
        f"The kernel did not move all memory of the container to memory nodes {mems}: {where}. The container is where "
        "it was before. Pages that a device or the kernel has locked cannot be moved; restart the container instead."
    )


def check_huge_pages(mems: CpuSet, used: Mapping[int, Mapping[int, int]]) -> None:
    """Raise Conflict if huge pages of a moved container stayed on other nodes than ``mems``: others get these pages.

    ``used`` is the number of pages in use by memory node and size in KiB, for example ``{0: {2048: 3}}``.
    """
    left = [
        f"{count} of {size} KiB on memory node {node}"
        for node, pages in sorted(used.items())
        for size, count in sorted(pages.items())
        if count and node not in mems
    ]
    if left:
        raise exceptions.Conflict(
            f"The kernel did not move all huge pages of the container to memory nodes {mems}: {', '.join(left)}. The "
            "container is where it was before. Restart the container instead, or look for programs that use huge pages "
            "of these nodes beside their claims."
        )


def _size(plan: Plan) -> tuple[Any, ...]:
    shares = plan.cells.values()
    pages: dict[int, int] = {}
    for share in shares:
        for size, count in share.pages.items():
            pages[size] = pages.get(size, 0) + count
    mib = sum(share.memory_mib for share in shares)
    own = len(plan.dedicated_cpus)
    return (plan.cpu_policy, plan.isolation, own, plan.uses_pool, mib, pages, plan.devices, plan.cache)


def _told(new: Plan, old: Plan) -> str:
    return " instead of ".join(
        f"{len(each.dedicated_cpus)} CPUs and {sum(share.memory_mib for share in each.cells.values())} MiB"
        for each in (new, old)
    )
