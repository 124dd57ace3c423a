# SPDX-License-Identifier: Apache-2.0
"""The request of one container to the scheduler, as an immutable value."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from zun.common import hints
from zun.common.departures import departed
from zun.common.groups import Group
from zun.db import bounds, models
from zun.objects.placement import disk_promised, placement_request
from zun.objects.wishes import Wishes
from zun.scheduler.host_state import HostState
from zun.topology import PlacementRequest


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """The request of one container to the scheduler.

    ``disk`` is in GiB. The host must have all ``labels``. ``tried`` has the hosts that refused, with their reasons.
    ``same_host`` and ``different_host`` are uuids of containers. ``extra_specs`` are conditions on the aggregates of
    the host, ``image_properties`` (architecture, os_type, runtime) on the host itself. The host must have one trait of
    each of ``any_traits``, and be in one of each of ``member_of``, which are uuids of aggregates. ``select`` fills in
    the members of the ``group`` and ``pools_used`` from its table of hosts.
    """

    uuid: str
    placement: PlacementRequest
    _: KW_ONLY
    disk: int = 0
    availability_zone: str | None = None
    runtime: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    requested_host: str | None = None
    tried: Mapping[str, str] = field(default_factory=dict)
    project_id: str | None = None
    image: str | None = None
    group: Group | None = None
    same_host: frozenset[str] = frozenset()
    different_host: frozenset[str] = frozenset()
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    image_properties: Mapping[str, str] = field(default_factory=dict)
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    any_traits: tuple[frozenset[str], ...] = ()
    member_of: tuple[frozenset[str], ...] = ()
    pools_used: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    """The promised GiB of each disk pool, by the uuid of its aggregate: of all hosts together."""

    @property
    def dedicated(self) -> bool:
        """True if the container asks for CPUs of its own."""
        return self.placement.dedicated

    @property
    def isolated(self) -> bool:
        """True if the container asks for CPUs that the kernel isolates; it gets no others."""
        return self.placement.isolation == "isolated"

    def free_disk(self, host: HostState) -> float:
        """Return the GiB that ``host`` may still promise: of its disk pool, or of its own disk."""
        pool = host.disk_pool
        if pool is None:
            return host.own_free_disk
        return max(0, pool.size - self.pools_used.get(pool.uuid, host.disk_used))

    @classmethod
    def of(cls, container: Any, tried: Mapping[str, str] | None = None, *, group: Group | None = None) -> "RequestSpec":
        """Return the request with which ``container`` was accepted. ``group`` is the group that its hint names.

        Hints with an unknown scope (``SCOPE:NAME``) are extra specs. Unknown hints without a scope are ignored. Raise
        one of ``bounds.MALFORMED`` for a row that was written by hand.
        """
        wrong = bounds.row_problem(container, _AMOUNTS)
        if wrong is not None:
            raise ValueError(wrong)
        asked, wishes = container.request, container["placement"] or {}
        given, way = asked.get("hints") or {}, departed(asked)
        scoped = {name: str(value) for name, value in given.items() if ":" in name}
        labels, properties, specs = {}, {}, {}
        for name, value in scoped.items():
            if name.startswith(hints.LABEL):
                labels[name.removeprefix(hints.LABEL)] = value
            elif name.startswith(hints.IMAGE):
                properties[name.removeprefix(hints.IMAGE)] = value
            else:
                specs[name] = value
        return cls(
            uuid=container.uuid,
            placement=placement_request(container),
            disk=disk_promised(container),
            availability_zone=asked.get("availability_zone"),
            runtime=container.runtime,
            labels=labels,
            requested_host=asked.get("host") if way is None else way["to"],
            tried=dict(tried or {}) if way is None else {way["from"]: "it has left this host", **(tried or {})},
            project_id=container.project_id,
            image=container.get("image", None),  # a dry run may have no image
            group=group,
            same_host=_uuids(given.get(hints.SAME_HOST)),
            different_host=_uuids(given.get(hints.DIFFERENT_HOST)),
            extra_specs=specs,
            image_properties=properties,
            required_traits=frozenset(wishes.get("required_traits") or ())
            | _image_traits(properties, "required")
            | Wishes.of(wishes).traits,
            forbidden_traits=frozenset(wishes.get("forbidden_traits") or ()) | _image_traits(properties, "forbidden"),
            any_traits=tuple(map(frozenset, wishes.get("any_traits") or ())),
            member_of=tuple(map(frozenset, wishes.get("member_of") or ())),
        )


_AMOUNTS = [models.containers.c[name] for name in ("cpu", "memory", "disk")]


def _image_traits(properties: Mapping[str, str], value: str) -> frozenset[str]:
    """Return the traits that the image properties ``trait:NAME`` give this ``value``."""
    scope = "trait:"
    return frozenset(
        name.removeprefix(scope) for name, said in properties.items() if name.startswith(scope) and said == value
    )


def _uuids(hint: Any) -> frozenset[str]:
    """Return the uuids of a hint: one uuid, a list of uuids, or a text of uuids separated by commas."""
    if not hint:
        return frozenset()
    names = hint.split(",") if isinstance(hint, str) else hint
    return frozenset(stripped for name in names if (stripped := str(name).strip()))
