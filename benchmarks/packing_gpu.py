# SPDX-License-Identifier: Apache-2.0
"""How many GPUs a cloud gives under our packing and under others: ``benchmarks/packing.py --gpu``.

Requests come one after the other, none ends, and together they ask for ``--load`` times the GPUs of the cloud. GPUs
are given whole; a request for a part of a GPU takes one. Hosts have two or four cells with equal parts of the CPUs and
the memory, and the GPUs are dealt to the cells in turn.

``--gpu-trace`` names a JSON file with ``hosts`` and ``requests``, each a list of kinds with a ``count``, or a CSV file
of requests with the columns cpu_milli, memory_mib, num_gpu, gpu_milli and gpu_spec (as in the traces of "Beware of
Fragmentation", USENIX ATC 2023). Of a CSV file, gpu_spec is not used, and the hosts are those of ``HOSTS``. Without a
file the requests are invented. From a file, requests are drawn with replacement by the seed.

The peers see the free CPUs, MiB and GPUs of each host and the exact check of each cell, as ours does:

* ``best-fit`` takes the host with the least left, as shares of the largest host;
* ``fgd`` takes the host whose fragmentation grows least (the *fragmentation gradient*), and knows how common each kind
  of request is;
* ``dot-product`` takes the host with the smallest product of what is free and what is asked;
* ``random`` takes any.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import random
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shapes import equal_cells
from zun.scheduler.columns import Columns
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import Weighted, best_first
from zun.topology import HostTopology, PlacementRequest, Plan, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.devices import Device

POLICIES = ("ours", "best-fit", "fgd", "dot-product", "random")
CELLS = (2, 4)
MOST_KINDS = 100
"""Kinds of requests that ``fgd`` looks at: the most common ones."""


@dataclass(frozen=True, order=True)
class Kind:
    """The CPUs, MiB and GPUs of a host or of a request."""

    cpus: int
    memory_mib: int
    gpus: int


HOSTS = Counter({
    Kind(96, 393216, 8): 9, Kind(104, 524288, 2): 6, Kind(128, 786432, 8): 1, Kind(16, 122880, 2): 2,
    Kind(32, 131072, 4): 1, Kind(32, 262144, 0): 2, Kind(96, 524288, 0): 2,
})


def invented() -> Counter[Kind]:
    """Return invented requests: most for one GPU, with very different CPUs and memory."""
    found: Counter[Kind] = Counter()
    one = ((1, 4, 25), (1, 8, 30), (1, 12, 25))
    for gpus, cpus, often in ((0, 4, 6), (0, 16, 2), *one, (2, 16, 3), (4, 32, 2), (8, 64, 2)):
        for gib in (1, 2, 4, 8):
            found[Kind(cpus, cpus * gib * 1024, gpus)] += often
    return found


def read(name: str | None) -> tuple[Counter[Kind], Counter[Kind]]:
    """Return the kinds of hosts and of requests, by how common they are."""
    if name is None:
        return HOSTS, invented()
    path = Path(name)
    if path.suffix == ".json":
        found = json.loads(path.read_text())
        return counted(found["hosts"]), counted(found["requests"])
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return HOSTS, Counter(
            Kind(max(1, math.ceil(int(row["cpu_milli"]) / 1000)), int(row["memory_mib"]), int(row["num_gpu"] or 0))
            for row in csv.DictReader(file)
        )


def counted(records: Sequence[dict[str, int]]) -> Counter[Kind]:
    found: Counter[Kind] = Counter()
    for each in records:
        found[Kind(each["cpus"], each["memory_mib"], each["gpus"])] += each["count"]
    return found


def cloud(hosts: Counter[Kind], number: int) -> list[Kind]:
    """Return so many hosts in the given proportions: the largest remainders are rounded up."""
    whole = sum(hosts.values())
    exact = {kind: count * number / whole for kind, count in hosts.items()}
    found = {kind: int(share) for kind, share in exact.items()}
    for kind in sorted(exact, key=lambda kind: (found[kind] - exact[kind], kind))[: number - sum(found.values())]:
        found[kind] += 1
    return [kind for kind in sorted(found) for _ in range(found[kind])]


def machine(kind: Kind, cells: int) -> HostTopology:
    """Return the host, a socket for each cell, with its GPUs on the cells in turn."""
    cpus, memory_mib = max(1, kind.cpus // cells), kind.memory_mib // cells
    made = equal_cells(cells, cpus, memory_mib, lambda a, b: 10 if a == b else 32)
    return replace(made, devices=tuple(
        Device(f"0000:{number:02x}:00.0", vendor_id="10de", cell=number % cells) for number in range(kind.gpus)
    ))


def placement(kind: Kind, affinity: str) -> PlacementRequest:
    devices = (DeviceRequest("gpu", kind.gpus, (DeviceMatch("10de"),)),) if kind.gpus else ()
    return PlacementRequest(kind.cpus, kind.memory_mib, numa_affinity=affinity, devices=devices)


class Cloud:
    """The hosts as the scheduler has them. Ours and the peers place by the same exact plan; the host differs."""

    def __init__(
        self, hosts: Sequence[Kind], cells: int, name: str, seed: int, common: Counter[Kind], ours: Sequence[Weighted]
    ) -> None:
        machines = {kind: machine(kind, cells) for kind in set(hosts)}
        self.table = Columns(HostState(f"host-{row:06}", machines[kind]) for row, kind in enumerate(hosts))
        self.name, self.random = name, random.Random(seed)
        self.weighers = ours
        self.capacity = np.array([[kind.cpus, kind.memory_mib, kind.gpus] for kind in hosts], float)
        self.free = self.capacity.copy()
        kinds = common.most_common(MOST_KINDS)
        self.kinds = np.array([[kind.cpus, kind.memory_mib, kind.gpus] for kind, _ in kinds], float)
        self.often = np.array([count for _, count in kinds], float) / sum(count for _, count in kinds)

    def place(self, number: int, asked: Kind, affinity: str) -> bool:
        spec = RequestSpec(str(number), placement(asked, affinity))
        wanted = np.array([asked.cpus, asked.memory_mib, asked.gpus], float)
        able = (self.free >= wanted).all(1)
        for row in self._ranked(spec, wanted, able):
            host = self.table[row]
            answer = plan(host.topology, host.usage, spec.placement)
            if isinstance(answer, Plan):
                self.table.put(replace(host, usage=host.usage.with_claim(spec.uuid, answer)))
                self.free[row] -= wanted
                return True
        return False

    def _ranked(self, spec: RequestSpec, wanted: Any, able: Any) -> Iterator[int]:
        if self.name == "ours":
            yield from best_first(self.table, spec, self.weighers, able)
            return
        rows = np.flatnonzero(able)
        largest = self.capacity.max(0)
        if self.name == "random":
            order = self.random.sample(list(rows), len(rows))
        elif self.name == "best-fit":
            order = rows[np.argsort(((self.free[rows] - wanted) / largest).sum(1), kind="stable")]
        elif self.name == "dot-product":
            order = rows[np.argsort((self.free[rows] * wanted / largest**2).sum(1), kind="stable")]
        else:
            grown = self._fragments(self.free[rows] - wanted) - self._fragments(self.free[rows])
            order = rows[np.argsort(np.round(grown, 9), kind="stable")]
        yield from map(int, order)

    def _fragments(self, free: Any) -> Any:
        """Return the free GPUs of each host that a request, drawn by how common it is, could not use."""
        unusable = ~(free[:, np.newaxis] >= self.kinds).all(2) | (self.kinds[:, 2] == 0)
        return free[:, 2] * (unusable * self.often).sum(1)


def run(policy: Cloud, asked: Sequence[tuple[Kind, str]]) -> dict[str, float]:
    """Return what the policy gave: GPUs before the first refusal and in all, requests and CPUs."""
    found = {"first_gpus": 0, "gpus": 0, "requests": 0, "cpus": 0}
    refused = False
    for number, (kind, affinity) in enumerate(asked):
        if not policy.place(number, kind, affinity):
            refused = True
            continue
        found["requests"] += 1
        found["gpus"] += kind.gpus
        found["cpus"] += kind.cpus
        found["first_gpus"] += 0 if refused else kind.gpus
    return found


def drawn(requests: Counter[Kind], hosts: Sequence[Kind], cells: int, seed: int, load: float) -> list[tuple[Kind, str]]:
    """Return requests until they ask for ``load`` times the GPUs, with their affinity.

    Requests that no empty host holds are left out. The affinity is ``prefer`` where one cell is never enough.
    """
    draw, left = random.Random(seed), load * sum(host.gpus for host in hosts)
    kinds = sorted(requests)
    of_kind: dict[Kind, str | None] = {}
    for kind in kinds:
        able = [host for host in hosts if host.cpus // cells * cells >= kind.cpus and host.gpus >= kind.gpus]
        able = [host for host in able if host.memory_mib >= kind.memory_mib]
        one = any(host.cpus // cells >= kind.cpus and host.memory_mib // cells >= kind.memory_mib for host in able)
        of_kind[kind] = "require" if one else "prefer" if able else None
    found: list[tuple[Kind, str]] = []
    while left > 0:
        (kind,) = draw.choices(kinds, [requests[each] for each in kinds])
        affinity = of_kind[kind]
        if affinity is not None:
            found.append((kind, affinity))
            left -= kind.gpus
    return found


def compare(
    trace: str | None, number: int, seeds: Sequence[int], load: float, ours: Sequence[Weighted]
) -> list[dict[str, Any]]:
    """Replay and print: GPUs given of those asked for, ratios to ours, and on how many runs nobody gave more.

    ``ours`` are the weighers of our policy.
    """
    hosts, requests = read(trace)
    made, rows = cloud(hosts, number), []
    for cells in CELLS:
        for seed in seeds:
            asked = drawn(requests, made, cells, seed, load)
            row: dict[str, Any] = {
                "cells": cells, "seed": seed, "asked": len(asked), "asked_gpus": sum(kind.gpus for kind, _ in asked),
                "asked_cpus": sum(kind.cpus for kind, _ in asked),
            }
            row |= {name: run(Cloud(made, cells, name, seed, requests, ours), asked) for name in POLICIES}
            rows.append(row)
        show(f"{number} hosts of {cells} cells, {sum(host.gpus for host in made)} GPUs, load {load:g}", [
            row for row in rows if row["cells"] == cells
        ])
    if len(CELLS) > 1:
        show("all runs", rows)
    return rows


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    print(f"\n{title}, {len(rows)} runs\n{'':>34}" + "".join(f"{name:>14}" for name in POLICIES))
    for metric, total, told in (
        ("gpus", "asked_gpus", "GPUs given of those asked"),
        ("first_gpus", "asked_gpus", "the same before the first refusal"),
        ("cpus", "asked_cpus", "CPUs given of those asked"),
        ("requests", "asked", "requests accepted"),
    ):
        given = {name: sum(row[name][metric] for row in rows) for name in POLICIES}
        asked = sum(row[total] for row in rows)
        print(f"{told:>34}" + "".join(f"{given[name] / asked:>14.2%}" for name in POLICIES))
        if metric == "gpus":
            ratio = [statistics.fmean(row[name][metric] / row["ours"][metric] for row in rows) for name in POLICIES]
            print(f"{'as a ratio to ours':>34}" + "".join(f"{each:>14.4f}" for each in ratio))
            best = [(row, max(row[name][metric] for name in POLICIES)) for row in rows]
            first = [sum(row[name][metric] == most for row, most in best) for name in POLICIES]
            print(f"{'runs on which nobody gave more':>34}" + "".join(f"{each:>14}" for each in first))
