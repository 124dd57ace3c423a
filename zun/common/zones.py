# SPDX-License-Identifier: Apache-2.0
"""Availability zones of hosts. The API and the scheduler both decide here which zone a host is in."""

from collections.abc import Iterable, Mapping
from typing import Any

KEY = "availability_zone"  # of an aggregate's metadata


def zone_of(hostname: str, own: str | None, aggregates: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the zone of an aggregate that has the host and names a zone; else ``own``, which the host's agent
    reported.

    ``aggregates`` are rows. The query module ensures that the aggregates of one host never name two zones.
    """
    zones = (named(each["metadata"]) for each in aggregates if hostname in each["hosts"])
    return next((zone for zone in zones if zone), own)


def named(metadata: Mapping[str, Any]) -> str | None:
    """Return the zone that an aggregate names, or None if there is none or it is not text."""
    zone = metadata.get(KEY)
    return zone if isinstance(zone, str) else None
