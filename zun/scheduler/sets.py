# SPDX-License-Identifier: Apache-2.0
"""The decision about a container set: a place for each of its equal members, or for as many as fit.

Members are equal, so the question is only how many each host takes. Hosts are filled one after the other, best first by
the weighers, each with as many members as fit there together (``zun.topology.together``) and as the rules allow. A
member changes only its own host, so the number that fits in all is the sum over the hosts. With ``pack`` this is done
for each domain alone, and the first domain with room for every member is taken, else the one with room for most.

Three resources are shared by hosts: a disk pool, a group with a policy and, with ``spread`` over a property, the
domain. The members placed before count there as well.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zun.common.groups import Policy
from zun.common.sets import CELL, HOST, NONE, SetRules, domain_of
from zun.objects.placement import EXACT_KEY
from zun.scheduler import weighers
from zun.scheduler.capacity import after
from zun.scheduler.columns import Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.filters.cpuset import CpuSetFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.select import Choice, admitted_by, informed
from zun.topology import CpuSet, Refusal
from zun.topology.cpuset import NO_CPUS
from zun.topology.together import at_most


@dataclass(frozen=True, slots=True)
class Present:
    """The members of a set that have a place already: their number and the cells that they use, by host."""

    counts: Mapping[str, int] = field(default_factory=dict)
    cells: Mapping[str, CpuSet] = field(default_factory=dict)


NOBODY = Present()


def place(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    rules: SetRules,
    wanted: int,
    filters: Sequence[HostFilter],
    weights: Sequence[weighers.Weighted],
    present: Present = NOBODY,
) -> list[Choice]:
    """Return the places of up to ``wanted`` members like ``spec``, beside those that are ``present``.

    All ``wanted`` have a place if that is possible at all; else as many as possible.
    """
    table = hosts if isinstance(hosts, Columns) else Columns(hosts)
    spec = informed(spec, table)
    admitted, _ = admitted_by(table, spec, filters)
    best_first = (table[row] for row in weighers.best_first(table, spec, weights, admitted))
    rules = _of_group(spec, rules)
    used = _used(table, rules.spread, present) if rules.spreads_over_property else frozenset()
    filling = _Filling(spec, rules, wanted, filters, present, used)
    if rules.pack == NONE:
        return filling.fill(best_first)
    most: list[Choice] = []
    for bound, domain in _roomiest(filling, _domains(best_first, rules.pack, _used(table, rules.pack, present))):
        if bound <= len(most):
            break
        found = filling.fill(domain)
        if len(found) > len(most):
            most = found
    return most


def _roomiest(filling: "_Filling", domains: Iterable[list[HostState]]) -> Iterator[tuple[int, list[HostState]]]:
    """Yield the domains with upper bounds on the members that they take, in the order in which they are tried.

    A domain that may have room for all comes first, the best one before others; then those that may take most. As long
    as the caller looks for room for all, the domains behind the one at hand are not looked at.
    """
    smaller: list[tuple[int, list[HostState]]] = []
    for domain in domains:
        bound = filling.at_most(domain)
        if bound == filling.wanted:
            yield bound, domain
        else:
            smaller.append((bound, domain))
    yield from sorted(smaller, key=lambda each: -each[0])


def _of_group(spec: RequestSpec, rules: SetRules) -> SetRules:
    """Return the rules with those of the members' group: with the policy affinity all members are on one host."""
    if spec.group is not None and spec.group.policy == Policy.AFFINITY and rules.pack == NONE:
        return replace(rules, pack=HOST)
    return rules


def _used(table: Columns, name: str, present: Present) -> frozenset[str | None]:
    """Return the domains ``name`` that have a member."""
    states = (table.find(hostname) for hostname in present.counts)
    return frozenset(domain_of(host.hostname, host.aggregates, name) for host in states if host is not None)


def _domains(
    best_first: Iterable[HostState], name: str, only: frozenset[str | None]
) -> Iterator[list[HostState]]:
    """Yield the hosts of each domain, best first; the domain with the best host comes first.

    If some domains are named in ``only``, the others are left out.
    """
    found: dict[str, list[HostState]] = {}
    for host in best_first:
        domain = domain_of(host.hostname, host.aggregates, name)
        if domain is None or (only and domain not in only):
            continue
        if name == HOST:  # no other host is in its domain
            yield [host]
        else:
            found.setdefault(domain, []).append(host)
    yield from found.values()


@dataclass(frozen=True, slots=True)
class _Filling:
    """A question to hosts: how many of ``wanted`` members like ``spec`` they take under the rules."""

    spec: RequestSpec
    rules: SetRules
    wanted: int
    filters: Sequence[HostFilter]
    present: Present
    used_domains: frozenset[str | None]

    def fill(self, best_first: Iterable[HostState]) -> list[Choice]:
        """Return the places on these hosts, which are filled in their order."""
        spec, used, found = self.spec, set(self.used_domains), list[Choice]()
        over_property = self.rules.spreads_over_property
        for host in best_first:
            left = self.wanted - len(found)
            if not left:
                break
            most = min(left, self.rules.most_per_host - self.present.counts.get(host.hostname, 0))
            if over_property:
                domain = domain_of(host.hostname, host.aggregates, self.rules.spread)
                if domain is None or domain in used:
                    continue
                most = min(most, 1)
            if most <= 0:
                continue
            choices, spec = self._on(host, spec, most)
            found += choices
            if over_property and choices:
                used.add(domain)
        return found

    def at_most(self, hosts: Iterable[HostState]) -> int:
        """Return an upper bound on the members that these hosts take; far cheaper than ``fill``."""
        apart = self.rules.spread == CELL
        total = 0
        for host in hosts:
            if total >= self.wanted:
                break
            closed = self.present.cells.get(host.hostname, NO_CPUS) if apart else None
            total += min(self.rules.most_per_host, at_most(host.topology, host.usage, self.spec.placement, closed))
        return min(total, self.wanted)

    def _on(self, host: HostState, spec: RequestSpec, most: int) -> tuple[list[Choice], RequestSpec]:
        """Return the places of up to ``most`` members on one host, and the request of the next member."""
        choices: list[Choice] = []
        apart = self.present.cells.get(host.hostname, NO_CPUS) if self.rules.spread == CELL else None
        for answer in host.together(spec.placement, most, apart):
            limits = self._limits(host, spec)
            if limits is None:
                break
            limits["cpuset"] = {**answer.record, "generation": host.generation}
            if apart is not None:
                limits[EXACT_KEY] = True
            choice = Choice(host.hostname, limits, answer.claim)
            choices.append(choice)
            host = host.taken(f"{spec.uuid}-{len(choices)}", choice.held(spec))
            spec = _after(spec, host)
        return choices, spec

    def _limits(self, host: HostState, spec: RequestSpec) -> dict[str, object] | None:
        """Return the limits of one member beside the plan, or None if a filter turns the host away."""
        limits: dict[str, object] = {}
        for each in self.filters:
            if each.reject(host, spec) is not None:
                return None
            answer = {} if isinstance(each, CpuSetFilter) else each.limits(host, spec)
            if isinstance(answer, Refusal):
                return None
            limits.update(answer)
        return limits


def _after(spec: RequestSpec, host: HostState) -> RequestSpec:
    """Return the request of the next member, after one was placed on ``host``, which has taken it."""
    if spec.group is not None:
        members = {**spec.group.members, host.hostname: spec.group.members.get(host.hostname, 0) + 1}
        spec = replace(spec, group=replace(spec.group, members=members))
    return after(spec, host, 1)
