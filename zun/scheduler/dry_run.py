# SPDX-License-Identifier: Apache-2.0
"""Simulate placements: choose hosts as a create does, and book the choices on copies of the hosts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zun.scheduler import weighers
from zun.scheduler.columns import Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.select import Choice, NoValidHost, select


@dataclass(frozen=True, slots=True)
class DryRun:
    """The choices for each container: its host first, then the alternates.

    ``refusal`` explains why the first container without a host has none, or is None if every container has a host.
    """

    placed: tuple[tuple[Choice, ...], ...]
    refusal: NoValidHost | None

    def to_dict(self) -> dict[str, Any]:
        """Return the answer of the RPC message ``dry_run``, with host names and exact plans whoever asks."""
        return {
            "placed": [
                {
                    "host": choices[0].hostname,
                    "cpuset": dict(choices[0].limits["cpuset"]),
                    "alternates": [choice.hostname for choice in choices[1:]],
                }
                for choices in self.placed
            ],
            "refusal": None if self.refusal is None else dict(self.refusal.explanation.record),
        }


def dry_run(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    weights: Sequence[weighers.Weighted],
    *,
    count: int,
    choices: int,
) -> DryRun:
    """Simulate ``count`` creates of ``spec``, one after the other. Each finds ``choices`` hosts and takes the first."""
    placed: list[tuple[Choice, ...]] = []
    requests = ((f"{spec.uuid}-{number}", spec) for number in range(count))
    for answer in _one_by_one(Columns(hosts), requests, filters, weights, choices):
        if isinstance(answer, NoValidHost):
            return DryRun(tuple(placed), answer)
        placed.append(tuple(answer))
    return DryRun(tuple(placed), None)


@dataclass(frozen=True, slots=True)
class Places:
    """The choice for each container that leaves a host, by uuid, or why no other host can hold the container.

    The order is the one in which the containers are placed. Each choice holds only after the choices before it.
    """

    answers: Mapping[str, Choice | NoValidHost]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer of the RPC message ``find_places``."""
        return {
            uuid: {"host": None, "reason": answer.explanation.message}
            if isinstance(answer, NoValidHost)
            else {"host": answer.hostname, "reason": None}
            for uuid, answer in self.answers.items()
        }


def places(
    hosts: Sequence[HostState],
    leaving: str,
    specs: Iterable[RequestSpec],
    filters: Sequence[HostFilter],
    weights: Sequence[weighers.Weighted],
) -> Places:
    """Simulate that the containers ``specs`` leave the host ``leaving`` for other hosts, one after the other.

    The biggest container is first: the one with the most own CPUs, then with the most memory. Hosts have the most room
    at the beginning. The claims on ``leaving`` count for nothing, not even those of containers that stay.
    """
    others = [host for host in hosts if host.hostname != leaving]
    # A message may be late, so that a container still holds something on another host. Nothing holds two claims there.
    elsewhere = {owner for host in others for owner in host.usage.owners}
    order = sorted(specs, key=lambda spec: (-spec.placement.own_cpus, -spec.placement.memory_mib, spec.uuid))
    requests = ((f"{spec.uuid}-new" if spec.uuid in elsewhere else spec.uuid, spec) for spec in order)
    found = _one_by_one(Columns(others), requests, filters, weights, 1)
    return Places(
        {
            spec.uuid: answer if isinstance(answer, NoValidHost) else answer[0]
            for spec, answer in zip(order, found, strict=True)
        }
    )


def _one_by_one(
    table: Columns,
    requests: Iterable[tuple[str, RequestSpec]],
    filters: Sequence[HostFilter],
    weights: Sequence[weighers.Weighted],
    choices: int,
) -> Iterator[list[Choice] | NoValidHost]:
    """Yield the answer to each request, and book the best choice in ``table`` before the next request.

    A request has the owner of its claim, which holds nothing on any host of the table. Example: ("7c1e4b2a-0", spec).
    """
    for owner, spec in requests:
        answer = select(table, spec, filters, weights, choices)
        if not isinstance(answer, NoValidHost):
            best = answer[0]
            host = table.find(best.hostname)
            assert host is not None, "a host is chosen among those of the table"
            table.put(host.taken(owner, best.held(spec)))
        yield answer
