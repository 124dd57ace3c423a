# SPDX-License-Identifier: Apache-2.0
"""Answers of the scheduler as clients see them. Who may not see hosts gets counts of CPUs and hosts."""

from collections.abc import Mapping
from typing import Any

from zun.api.views import times
from zun.topology import Plan


def dry_run(answer: Mapping[str, Any], *, hosts: bool) -> dict[str, Any]:
    refusal = answer["refusal"]
    return {
        "fits": refusal is None,
        "placements": [_placement(placed, hosts=hosts) for placed in answer["placed"]],
        "refusal": None if refusal is None else _refusal(refusal, hosts=hosts),
    }


def _placement(placed: Mapping[str, Any], *, hosts: bool) -> dict[str, Any]:
    plan = Plan.from_dict(placed["cpuset"])
    dedicated = plan.cpu_policy != "shared"
    cells = []
    for node, share in plan.cells.items():
        shown: dict[str, Any] = {
            "cpus": len(share.cpus) if dedicated else share.shared,
            "withheld": len(share.withheld),
            "memory_mib": share.memory_mib,
            "pages": {str(size): count for size, count in share.pages.items()},
        }
        if hosts:
            shown |= {"node": node, "cpuset_cpus": str(share.cpus), "withheld_cpus": str(share.withheld)}
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


def capacity(answer: Mapping[str, Any], *, hosts: bool) -> dict[str, Any]:
    shown = {"total": answer["total"], "complete": answer["complete"]}
    return {**shown, "hosts": list(answer["hosts"])} if hosts else shown


def explanation(row: Mapping[str, Any], *, hosts: bool) -> dict[str, Any]:
    """Of a row of ``zun.db.explanations``."""
    return {
        "container": row["container_uuid"],
        "created_at": times.of_resource(row["created_at"]),
        **_refusal(row["record"], hosts=hosts),
    }


def _refusal(record: Mapping[str, Any], *, hosts: bool) -> dict[str, Any]:
    """A record of ``zun.scheduler.explain``."""
    names = ["reason", "wanted", "hosts", "filters", "codes", "changes"]
    if hosts:
        names += ["details", "details_left_out"]
    return {name: record[name] for name in names}
