# SPDX-License-Identifier: Apache-2.0
"""Exact answers of hosts, and the one place where the scheduler keeps them.

Equal machines give equal containers equal places, so a cloud needs far fewer plans than it makes. Every key is a value:
a host with the same topology, the same totals and the same request gets the same answer, and no change of a host can
make an entry wrong. A dictionary is emptied when it is full: a lost entry costs time or memory and nothing else.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from zun.objects.placement import disk_promised
from zun.scheduler.host_state import Answer, Held, HostState, answer, together
from zun.topology import CpuSet, HostTopology, PlacementRequest, Plan, Refusal
from zun.topology.ranges import MALFORMED

ANSWERS = 10_000
"""Plans that are kept."""

REFUSALS = 2_000
"""Refusals that are kept. They are larger than plans, because their details are computed later."""

SETS = 20_000
"""Plans of several equal containers on one host that are kept, all together. A host has up to 1,000 for one question.
"""

CLAIMS = 100_000
"""Claims of containers that are kept, so that equal claims are one object."""

_Question = tuple[HostTopology, tuple[object, ...], PlacementRequest]
"""The topology, the totals of the usage, and the request."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class PlanCache:
    """The answers and claims that are kept. Threads may share it: at worst two compute the same answer."""

    def __init__(self) -> None:
        self._answers: dict[_Question, Answer] = {}
        self._refusals: dict[_Question, Refusal] = {}
        self._sets: dict[tuple[object, ...], tuple[Answer, ...]] = {}
        self._in_sets = 0
        """The plans of ``_sets``, and one for each question."""
        self._claims: dict[tuple[object, ...], Plan] = {}
        self._held: dict[tuple[object, ...], Held] = {}

    def answer(self, host: HostState, request: PlacementRequest) -> Answer | Refusal:
        """Return what ``answer`` returns; the plan is made once for all hosts with equal totals."""
        question = (host.topology, host.usage.totals, request)
        known = self._answers.get(question) or self._refusals.get(question)
        if known is not None:
            return known
        found = answer(host, request)
        if isinstance(found, Refusal):
            return _kept(self._refusals, question, found, REFUSALS)
        return _kept(self._answers, question, found, ANSWERS)

    def together(
        self, host: HostState, request: PlacementRequest, most: int, apart: CpuSet | None
    ) -> tuple[Answer, ...]:
        """Return what ``together`` returns; the plans are made once for all hosts with equal totals."""
        question = (host.topology, host.usage.totals, request, most, apart)
        known = self._sets.get(question)
        if known is None:
            known = together(host, request, most, apart)
            self._in_sets += len(known) + 1
            if self._in_sets > SETS:
                self._sets.clear()
                self._in_sets = len(known) + 1
            self._sets[question] = known
        return known

    def held(self, held: Held) -> Held:
        """Return the one object for all values equal to ``held``: a large cloud has few different ones."""
        key = _key(held.plan)
        whole = (key, held.cpu, held.memory, held.disk, held.group, held.image)
        known = self._held.get(whole)
        if known is None:
            claim = self._claims.get(key) or _kept(self._claims, key, held.plan, CLAIMS)
            same = Held(claim, held.cpu, held.memory, held.disk, held.group, held.image)
            known = _kept(self._held, whole, same, CLAIMS)
        return known

    def held_by_row(self, row: Mapping[str, Any]) -> Held | None:
        """Return the one object for ``Held.of(row)``. A record is parsed only if it is the first of its kind."""
        try:
            amounts = (row["cpu"], row["memory"], disk_promised(row), row["group_uuid"], row["image"])
            known = self._held.get((_key_of_record(row["cpuset"]), *amounts))
        except MALFORMED:  # ``Held.of`` tells
            known = None
        if known is not None:
            return known
        held = Held.of(row)
        return None if held is None else self.held(held)


def _key(claim: Plan) -> tuple[object, ...]:
    """Return a hashable value that is equal for equal claims."""
    cells = tuple([
        (
            node,
            str(share.cpus),
            share.memory_mib,
            str(share.withheld),
            share.shared,
            *[part for size, count in share.pages.items() for part in (str(size), count)],
        )
        for node, share in claim.cells.items()
    ])
    mems = str(claim.mems) if claim.mems.mask != sum(1 << node for node in claim.cells) else None
    parts = tuple(map(_key, claim.parts))
    return (claim.cpu_policy, claim.isolation, claim.whole_cores, mems, cells, claim.devices, *claim.cache, *parts)


def _key_of_record(record: Mapping[str, Any]) -> tuple[object, ...]:
    """Return ``_key`` of the claim whose record this is, as ``Plan.to_dict`` makes it, without parsing its CPU sets.

    The key of another record, or of one with devices, is the key of no claim.
    """
    cells = tuple([
        (
            share["node"],
            share["cpuset_cpu"],
            share["cpuset_mem"],
            share["withheld"],
            share["shared"],
            *[part for each in share["pages"].items() for part in each],
        )
        for share in record["cells"]
    ])
    devices = record.get("devices", ())
    isolation, whole = record.get("isolation", "thread"), record.get("whole_cores", False)
    cache = (record.get("cache_ways", 0), record.get("memory_bandwidth", 0))
    parts = tuple(map(_key_of_record, record.get("parts", ())))
    return (record["cpu_policy"], isolation, whole, record.get("mems"), cells, devices, *cache, *parts)


def _kept(kept: dict[Key, Value], key: Key, value: Value, most: int) -> Value:
    if len(kept) >= most:
        kept.clear()
    kept[key] = value
    return value
