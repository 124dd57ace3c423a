# SPDX-License-Identifier: Apache-2.0
"""A claim: what one container takes of this host, from the test until it is kept or given back."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import TracebackType
from typing import Any, Self

from zun.common import exceptions
from zun.objects.placement import (
    CPU_RATIO_KEY,
    EXACT_KEY,
    RAM_RATIO_KEY,
    memory_used,
    shared_cpus_left,
    shared_memory_left,
)
from zun.objects.wishes import NO_WISHES, Wishes
from zun.topology import HostTopology, PlacementRequest, Plan, Refusal, Usage, amounts, plan
from zun.topology.allocator import with_devices_now
from zun.topology.host_topology import view_of
from zun.topology.request import MICRO


@dataclass(frozen=True, slots=True)
class Resources:
    """This host at the moment of a claim. ``usage`` holds every other claim; disk is in GiB, as often as promised.

    ``disk_limit`` is None if containers take disk from a pool: the transaction that commits the claim asks the pool.
    """

    hostname: str
    topology: HostTopology
    usage: Usage
    generation: int
    disk_limit: float | None
    disk_used: int
    enable_cpu_pinning: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """The request of one container. ``disk`` is in GiB."""

    uuid: str
    request: PlacementRequest
    disk: int
    wishes: Wishes = NO_WISHES


class Claim:
    """Tests ``limits`` against the host and settles the plan. Raises ClaimRefused with every reason it found.

    ``limits['cpuset']`` is the scheduler's plan. It is carried out as it is if each of its parts is still free and its
    devices still are what the request asks for; else the host plans anew within the same request. If the request does
    not name the devices of the plan, it is refused with the part that is not free. Without one (a container that comes
    back, an operator's tool) the host plans.

    What the host has, and how often that may be promised, it knows itself; a scheduler may not have heard yet of the
    last change. ``limits['cpu_allocation_ratio']`` and ``limits['ram_allocation_ratio']``, which aggregates name, are
    bounds: a message never raises a ratio, see ``ComputeNodeTracker.container_claim``. ``memory`` (MiB), ``cpu`` and
    ``disk`` (GiB) bound what may be promised of the whole host: schedulers of earlier releases send them, and filters
    of an operator's own may. With ``limits['exact']`` the plan of ``cpuset`` is carried out as it is or refused: the
    rules of a set may allow no other one.

    As a context manager it gives everything back when the work inside raises one of our own errors. After any other
    nobody knows whether it was committed: it stays until it is compared with the row. ``abort`` gives back by hand.
    """

    def __init__(
        self,
        resources: Resources,
        wanted: Wanted,
        limits: Mapping[str, Any],
        give_back: Callable[[str], None],
    ) -> None:
        self._resources = resources
        self._wanted = wanted
        self._give_back = give_back
        self.plan = self._claim_test(limits)

    @property
    def uuid(self) -> str:
        return self._wanted.uuid

    def abort(self) -> None:
        """Give back everything. Doing so twice is harmless."""
        self._give_back(self.uuid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, exceptions.ZunError):
            self.abort()

    def _claim_test(self, limits: Mapping[str, Any]) -> Plan:
        topology, request = self._resources.topology, self._wanted.request
        proposed = Plan.from_dict(limits["cpuset"]) if limits.get("cpuset") else None
        if proposed is not None:  # a scheduler of an earlier release does not say it
            proposed = replace(proposed, whole_cores=request.whole_cores)
        reasons = [
            self._test_memory(limits.get("memory")),
            self._test_cpu(limits.get("cpu")),
            self._test_disk(limits.get("disk")),
        ]
        if request.dedicated and not self._resources.enable_cpu_pinning:
            reasons.append("the host takes no dedicated containers ([compute] enable_cpu_pinning)")
        settled = self._settled(proposed, exact=bool(limits.get(EXACT_KEY)))
        reasons += self._test_ratios(settled, limits.get(CPU_RATIO_KEY), limits.get(RAM_RATIO_KEY))
        if isinstance(settled, Refusal):
            reasons.append(settled.message)
        lacking = [reason for reason in reasons if reason]
        if lacking or isinstance(settled, Refusal):
            raise exceptions.ClaimRefused(host=self._resources.hostname, reason="; ".join(lacking))
        devices = tuple(map(topology.device_view.described, settled.devices))
        return replace(settled, generation=self._resources.generation, devices=devices)

    def _settled(self, proposed: Plan | None, *, exact: bool) -> Plan | Refusal:
        """Return ``proposed`` if free, with devices that serve the request, else the host's own plan."""
        topology, usage, request = self._resources.topology, self._resources.usage, self._wanted.request
        if proposed is None:
            return plan(topology, usage, request)
        problem = usage.fits(topology, proposed)
        if exact and problem is not None:
            return problem
        if request.members and len(proposed.parts) != len(request.members):
            return plan(topology, usage, request)
        if not request.devices:
            if problem is not None and proposed.devices:
                return problem  # planned anew, the container would have none of its devices
            return proposed if problem is None else plan(topology, usage, request)
        today = None if problem is not None else with_devices_now(topology, request, proposed)
        return today or plan(topology, usage, request)

    def _test_memory(self, limit: float | None) -> str | None:
        """Check that all containers stay within ``limit`` MiB of ordinary pages. The plan counts the huge ones.

        Of what a cell promised before it became smaller, or was gone, only what it has now counts: no other cell has
        less for it.
        """
        request = self._wanted.request
        wanted = sum(each.memory_mib for each in request.each if each.ordinary_pages)
        if not any(each.ordinary_pages for each in request.each):
            return None
        view = view_of(self._resources.topology)
        ratio = max(Fraction(1), view.ram_ratio)
        promised = memory_used(self._resources.usage)
        used = sum(min(promised.get(node, 0), int(size * ratio)) for node, size in view.small_mib.items())
        return _over("memory", "MiB", used, wanted, limit)

    def _test_cpu(self, limit: float | None) -> str | None:
        """Check that the containers of this CPU policy stay within ``limit`` CPUs, on cells that have CPUs now."""
        request, usage = self._wanted.request, self._resources.usage
        if request.dedicated:
            used: float = len(usage.held_cpus & self._resources.topology.cpus_for(request.isolation))
            return _over("dedicated CPUs", "CPUs", used, request.own_cpus, limit)
        used = sum(usage.demand(cell.id) for cell in view_of(self._resources.topology).cells) / MICRO
        return _over("shared CPUs", "CPUs", used, request.cpus, limit)

    def _test_disk(self, limit: float | None) -> str | None:
        if self._resources.disk_limit is None:
            return None
        most = self._resources.disk_limit if limit is None else limit
        return _over("disk", "GiB", self._resources.disk_used, self._wanted.disk, most)

    def _test_ratios(
        self, settled: Plan | Refusal, cpu_ratio: str | None, ram_ratio: str | None
    ) -> Iterator[str | None]:
        """Check the pool's part of a container against ratios below the host's. The plan keeps to the host's.

        The own CPUs of a mixed container are no CPUs of the pool any more. Its memory is never promised twice.
        """
        request, usage = self._wanted.request, self._resources.usage
        if not request.demand and request.dedicated:
            return
        shared = [each.memory_mib for each in request.each if not each.dedicated]
        if request.dedicated:
            if isinstance(settled, Refusal):
                return
            own = [replace(each, cpu_policy="dedicated") for each in settled.each if each.dedicated]
            ram_ratio, usage = ram_ratio if shared else None, usage.with_claim(self.uuid, Plan.joined(own))
        view = view_of(self._resources.topology)
        if cpu_ratio is not None:
            left = shared_cpus_left(view, usage, min(view.cpu_ratio, Fraction(cpu_ratio)))
            yield _short("shared CPUs", "CPUs", left / MICRO, request.demand / MICRO)
        if ram_ratio is not None:
            mib = shared_memory_left(view, usage, min(view.ram_ratio, Fraction(ram_ratio)))
            yield _short("memory", "MiB", mib, sum(shared))


def _over(what: str, unit: str, used: float, wanted: float, limit: float | None) -> str | None:
    return None if limit is None else _short(what, unit, max(0.0, limit - used), wanted)


def _short(what: str, unit: str, left: float, wanted: float) -> str | None:
    if amounts.exact(wanted - left) <= 0:
        return None
    return f"free {what} {amounts.text(left)} {unit} < requested {amounts.text(wanted)} {unit}"
