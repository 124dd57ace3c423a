# SPDX-License-Identifier: Apache-2.0
"""What one container asks of a host, as an immutable value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zun.objects.placement import placement_request
from zun.topology import PlacementRequest

LABEL_HINT = "label:"


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """``disk`` is in GiB; all ``labels`` must be on the host; ``tried`` are hosts that refused, with their reasons."""

    uuid: str
    placement: PlacementRequest
    disk: int = 0
    availability_zone: str | None = None
    runtime: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    requested_host: str | None = None
    tried: Mapping[str, str] = field(default_factory=dict)

    @property
    def dedicated(self) -> bool:
        return self.placement.cpu_policy == "dedicated"

    @classmethod
    def of(cls, container: Any, tried: Mapping[str, str] | None = None) -> "RequestSpec":
        """The request that ``container`` was accepted with."""
        asked = container.request
        hints = asked.get("hints") or {}
        return cls(
            uuid=container.uuid,
            placement=placement_request(container),
            disk=container.disk or 0,
            availability_zone=asked.get("availability_zone"),
            runtime=container.runtime,
            labels={
                name.removeprefix(LABEL_HINT): str(value)
                for name, value in hints.items()
                if name.startswith(LABEL_HINT)
            },
            requested_host=asked.get("host"),
            tried=dict(tried or {}),
        )
