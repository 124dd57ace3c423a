# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import TypedDict


class Used(TypedDict):
    limit: int
    in_use: float


Limits = dict[str, int]
LimitsAndUse = dict[str, int | Used]


def show(limits: Mapping[str, int], usage: Mapping[str, float] | None = None) -> LimitsAndUse:
    """The limits by resource, -1 being none; with ``usage`` each beside what is in use."""
    if usage is None:
        return dict(limits)
    return {name: {"limit": limit, "in_use": usage[name]} for name, limit in limits.items()}
