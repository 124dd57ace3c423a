# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from zun.api import microversion
from zun.api.views import members, times
from zun.nouns import cloud

Service = Annotated[members.Shown, members.Answer(cloud.Service)]


class Services(TypedDict):
    services: list[Service]


class Changed(TypedDict):
    """The changed members of a service."""

    host: str
    binary: str
    disabled: NotRequired[bool]
    disabled_reason: NotRequired[str | None]
    forced_down: NotRequired[bool]


class ChangedService(TypedDict):
    service: Changed


def show(row: Mapping[str, Any], *, up: bool, zone: str) -> Service:
    state = "up" if up else "down"
    return members.show(
        cloud.Service, row, microversion.MAX, time=times.of_service, state=state, availability_zone=zone
    )
