# SPDX-License-Identifier: Apache-2.0
"""What one container asks of a host, as an immutable value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zun.common import hints
from zun.common.groups import Group
from zun.objects.placement import disk_promised, placement_request
from zun.topology import PlacementRequest
from zun.topology.holes import Demand


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """``disk`` is in GiB; all ``labels`` must be on the host; ``tried`` are hosts that refused, with their reasons.

    ``same_host`` and ``different_host`` are uuids of containers. ``extra_specs`` are asked of the host's aggregates,
    ``image_properties`` (architecture, os_type, runtime) of the host itself. ``demand`` says what the next requests
    will probably be; ``select`` fills it in from the hosts it is given, and the members of the ``group``.
    """

    uuid: str
    placement: PlacementRequest
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
    demand: Callable[[PlacementRequest], Demand] | None = field(default=None, compare=False, repr=False)

    @property
    def dedicated(self) -> bool:
        return self.placement.dedicated

    @property
    def isolated(self) -> bool:
        """It wants CPUs that the kernel isolates, and gets no others."""
        return self.placement.isolation == "isolated"

    @classmethod
    def of(cls, container: Any, tried: Mapping[str, str] | None = None, *, group: Group | None = None) -> "RequestSpec":
        """The request that ``container`` was accepted with. ``group`` is the one that its hint names.

        Hints with a scope (``SCOPE:NAME``) that is none of ours are extra specs. Names without a scope are the
        scheduler's own; those that it does not know ask for nothing.
        """
        asked = container.request
        given = asked.get("hints") or {}
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
            requested_host=asked.get("host"),
            tried=dict(tried or {}),
            project_id=container.project_id,
            image=container.get("image", None),  # who only asks where it would go may leave it out
            group=group,
            same_host=_uuids(given.get(hints.SAME_HOST)),
            different_host=_uuids(given.get(hints.DIFFERENT_HOST)),
            extra_specs=specs,
            image_properties=properties,
        )


def _uuids(hint: Any) -> frozenset[str]:
    """One uuid, a list of them, or several in one text with commas between."""
    if not hint:
        return frozenset()
    names = hint.split(",") if isinstance(hint, str) else hint
    return frozenset(stripped for name in names if (stripped := str(name).strip()))
