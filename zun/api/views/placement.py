# SPDX-License-Identifier: Apache-2.0
"""Responses of the scheduler. A caller who may not see hosts gets counts of CPUs and hosts."""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from zun.api.views import times
from zun.topology import Plan


class Refusal(TypedDict):
    """A refusal. ``details`` are for callers who may see hosts."""

    reason: str
    wanted: dict[str, Any]
    hosts: int
    filters: dict[str, int]
    codes: dict[str, int]
    changes: list[dict[str, Any]]
    details: NotRequired[list[dict[str, Any]]]
    details_left_out: NotRequired[int]


class Explanation(Refusal):
    container: str
    created_at: str | None


class PlacedCell(TypedDict):
    """One cell of a placement. Node and CPUs are for callers who may see hosts.

    ``cpus`` of a mixed container are its own CPUs. It has ``shared`` beside, its demand on the pool of the cell, and
    ``pool_cpus``, the CPUs of the pool now.
    """

    cpus: float
    withheld: int
    memory_mib: int
    pages: dict[str, int]
    node: NotRequired[int]
    cpuset_cpus: NotRequired[str]
    withheld_cpus: NotRequired[str]
    shared: NotRequired[float]
    pool_cpus: NotRequired[str]


class Placed(TypedDict):
    cells: list[PlacedCell]
    host: NotRequired[str]
    alternates: NotRequired[list[str]]
    cpuset_cpus: NotRequired[str]
    cpuset_mems: NotRequired[str]


class DryRun(TypedDict):
    fits: bool
    placements: list[Placed]
    refusal: Refusal | None


class Capacity(TypedDict):
    """The number of containers that fit. ``hosts`` is for callers who may see hosts."""

    total: int
    complete: bool
    hosts: NotRequired[list[dict[str, Any]]]


class Moved(TypedDict):
    """The move of one container within its host. ``mib`` must be copied."""

    container: str
    name: str
    old_cpuset_cpus: str
    old_cpuset_mems: str
    cpuset_cpus: str
    cpuset_mems: str
    mib: int


class Defragmentation(TypedDict):
    """The moves on ``host`` after which the request fits there, none if it fits already; ``accepted`` are under way.

    ``host`` is null if no moves help, and ``reason`` says why. ``proven``: no other moves of that host are cheaper.
    """

    host: str | None
    proven: bool
    reason: str | None
    accepted: int
    moves: list[Moved]


def defragmentation(answer: Mapping[str, Any], accepted: int = 0, why_not: str | None = None) -> Defragmentation:
    """Return the scheduler's ``answer``. ``why_not`` says why fewer moves than planned are ``accepted``."""
    return {
        "host": answer["host"],
        "proven": answer["proven"],
        "reason": answer["reason"] or why_not,
        "accepted": accepted,
        "moves": [
            {
                "container": each["uuid"],
                "name": each["name"],
                "old_cpuset_cpus": each["held"]["cpuset_cpus"],
                "old_cpuset_mems": each["held"]["cpuset_mems"],
                "cpuset_cpus": each["cpuset"]["cpuset_cpus"],
                "cpuset_mems": each["cpuset"]["cpuset_mems"],
                "mib": each["mib"],
            }
            for each in answer["moves"]
        ],
    }


def dry_run(answer: Mapping[str, Any], *, hosts: bool) -> DryRun:
    refusal = answer["refusal"]
    return {
        "fits": refusal is None,
        "placements": [_placement(placed, hosts=hosts) for placed in answer["placed"]],
        "refusal": None if refusal is None else _refusal(refusal, hosts=hosts),
    }


def _placement(placed: Mapping[str, Any], *, hosts: bool) -> Placed:
    plan = Plan.from_dict(placed["cpuset"])
    cells = []
    for node, share in plan.cells.items():
        shown: PlacedCell = {
            "cpus": len(share.cpus) if plan.dedicated else share.shared,
            "withheld": len(share.withheld),
            "memory_mib": share.memory_mib,
            "pages": {str(size): count for size, count in share.pages.items()},
        }
        if hosts:
            shown.update({"node": node, "cpuset_cpus": str(share.cpus), "withheld_cpus": str(share.withheld)})
        if plan.dedicated and plan.uses_pool:
            shown["shared"] = share.shared
            if hosts:
                shown["pool_cpus"] = str(share.pool)
        cells.append(shown)
    if not hosts:
        return {"cells": cells}
    return {
        "host": placed["host"],
        "alternates": list(placed["alternates"]),
        "cpuset_cpus": str(plan.cpus),
        "cpuset_mems": str(plan.mems),
        "cells": cells,
    }


def capacity(answer: Mapping[str, Any], *, hosts: bool) -> Capacity:
    shown: Capacity = {"total": answer["total"], "complete": answer["complete"]}
    if hosts:
        shown["hosts"] = list(answer["hosts"])
    return shown


def explanation(row: Mapping[str, Any], *, hosts: bool) -> Explanation:
    """Return the explanation in a row of ``zun.db.explanations``."""
    return {
        "container": row["container_uuid"],
        "created_at": times.of_resource(row["created_at"]),
        **_refusal(row["record"], hosts=hosts),
    }


def _refusal(record: Mapping[str, Any], *, hosts: bool) -> Refusal:
    """Return the refusal in a record of ``zun.scheduler.explain``."""
    shown: Refusal = {
        "reason": record["reason"],
        "wanted": record["wanted"],
        "hosts": record["hosts"],
        "filters": record["filters"],
        "codes": record["codes"],
        "changes": record["changes"],
    }
    if hosts:
        shown["details"] = record["details"]
        shown["details_left_out"] = record["details_left_out"]
    return shown
