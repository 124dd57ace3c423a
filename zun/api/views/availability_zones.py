# SPDX-License-Identifier: Apache-2.0
from typing import TypedDict


class Zone(TypedDict):
    availability_zone: str


class Zones(TypedDict):
    availability_zones: list[Zone]
    next: str | None


def show(zone: str) -> Zone:
    return {"availability_zone": zone}
