# SPDX-License-Identifier: Apache-2.0
"""Which availability zone a host is in: the one place that decides it, for the API and the scheduler."""

from collections.abc import Iterable, Mapping
from typing import Any

KEY = "availability_zone"  # of an aggregate's metadata


def zone_of(hostname: str, own: str | None, aggregates: Iterable[Mapping[str, Any]]) -> str | None:
    """The zone of an aggregate that has the host and names one; else ``own``, which the host's agent reported.

    ``aggregates`` are rows. Those of one host never name two zones: the query module sees to that.
    """
    zones = (named(each["metadata"]) for each in aggregates if hostname in each["hosts"])
    return next((zone for zone in zones if zone), own)


def named(metadata: Mapping[str, Any]) -> str | None:
    """The zone that an aggregate names. What is no text, written by hand, is none."""
    zone = metadata.get(KEY)
    return zone if isinstance(zone, str) else None
