# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import TypedDict

from zun.api import microversion
from zun.api.microversion import Version
from zun.db import quotas as db


class Used(TypedDict):
    limit: int
    in_use: float


Limits = dict[str, int]
LimitsAndUse = dict[str, int | Used]


def shown(version: Version, limits: Mapping[str, int]) -> Sequence[str]:
    """Return the resources that ``version`` has; of devices those in ``limits``."""
    if version < microversion.QUOTAS:
        return db.SIZES
    if version < microversion.DEVICE_QUOTAS:
        return db.RESOURCES
    return (*db.RESOURCES, *sorted(name for name in limits if name.startswith(db.DEVICE)))


def show(limits: Mapping[str, int], version: Version, usage: Mapping[str, float] | None = None) -> LimitsAndUse:
    """Return the limits by resource, -1 for no limit; with ``usage``, each limit beside the amount in use."""
    if usage is None:
        return {name: limits[name] for name in shown(version, limits)}
    return {name: {"limit": limits[name], "in_use": usage[name]} for name in shown(version, limits)}
