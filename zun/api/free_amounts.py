# SPDX-License-Identifier: Apache-2.0
"""The amounts of each host that dedicated containers may get: all of them, and those that nobody holds.

They follow from the topology and the claims of a host, so they change with its generation only. A list of 1,000 hosts
reads the topologies and claims of those hosts that have changed since the list before.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypedDict

from zun.db import compute_nodes, containers
from zun.objects.placement import held_plan
from zun.topology import HostTopology, Usage
from zun.topology.ranges import MALFORMED

KEPT = 20_000  # hosts


class Amounts(TypedDict):
    """``cells`` are cells with CPUs that no container runs on, and ``cores`` whole cores. ``memory_mib`` is in ordinary
    pages. ``devices`` are shares by resource class: a device that containers do not share is one."""

    cells: int
    cores: int
    cpus: int
    memory_mib: int
    devices: dict[str, int]


class HostAmounts(NamedTuple):
    total: Amounts
    free: Amounts


def amounts_left(host: HostTopology, usage: Usage) -> Amounts:
    """Return the amounts of a host that nobody holds if its containers hold ``usage``."""
    view, free = host.view, usage.free(host)
    idle = (cell for cell in view.cells if cell.dedicated and not usage.floor(view, cell))
    devices: Counter[str] = Counter()
    for device in usage.free_devices(host):
        devices[device.counted_as] += usage.shares_left(device)
    return {
        "cells": sum(free[cell.id].cpus.mask == cell.dedicated for cell in idle),
        "cores": sum(len(each.cores) for each in free.values()),
        "cpus": sum(len(each.cpus) for each in free.values()),
        "memory_mib": sum(max(0, each.memory_mib) for each in free.values()),
        "devices": dict(sorted(devices.items())),
    }


class FreeAmounts:
    """Reads the amounts of hosts, and keeps them until the generation of the host changes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Any, HostAmounts | None]] = {}  # by the uuid of the host, with the generation

    def of(self, nodes: Iterable[Mapping[str, Any]]) -> dict[str, HostAmounts | None]:
        """Return the amounts by host name, None for a host whose topology cannot be read.

        The rows ``nodes`` must have been read before. So the amounts are at least as new as the generation that they
        are kept with.
        """
        nodes = list(nodes)
        with self._lock:
            known = {node["hostname"]: self._known.get(node["uuid"]) for node in nodes}
        found = {
            node["hostname"]: kept[1]
            for node in nodes
            if (kept := known[node["hostname"]]) is not None and kept[0] == node["generation"]
        }
        missing = [node for node in nodes if node["hostname"] not in found]
        if missing:
            found |= _read([node["hostname"] for node in missing])
            with self._lock:
                if len(self._known) > KEPT:  # hosts that have gone, among others
                    self._known.clear()
                for node in missing:
                    self._known[node["uuid"]] = (node["generation"], found[node["hostname"]])
        return found


def _read(hostnames: list[str]) -> dict[str, HostAmounts | None]:
    held: dict[str, list[Mapping[str, Any]]] = {}
    for claim in containers.claims(hostnames):
        held.setdefault(claim["host"], []).append(claim)
    machines: dict[str, tuple[HostTopology, Amounts] | None] = {}  # equal machines are read once
    found: dict[str, HostAmounts | None] = dict.fromkeys(hostnames)
    for node in compute_nodes.inventories(hostnames):
        text = node["topology"]
        if text not in machines:
            machines[text] = _machine(text)
        if (machine := machines[text]) is not None:
            host, total = machine
            plans = ((row["uuid"], held_plan(row)) for row in held.get(node["hostname"], ()))
            usage = Usage([(uuid, plan) for uuid, plan in plans if plan is not None], overlapping=True)
            found[node["hostname"]] = HostAmounts(total, amounts_left(host, usage))
    return found


def _machine(text: str) -> tuple[HostTopology, Amounts] | None:
    """Return the host of a JSON record and all of its amounts, None if the record cannot be read."""
    try:
        host = HostTopology.from_dict(json.loads(text))
        return host, amounts_left(host, Usage())
    except MALFORMED:  # written by hand; its agent writes it anew
        return None
