# SPDX-License-Identifier: Apache-2.0
"""``/v1/availability_zones``: the zones of services and of host aggregates, for everybody."""

from collections.abc import Sequence

from zun.api import paging
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import Answer, Route
from zun.api.views import availability_zones as views
from zun.common import exceptions, zones
from zun.db import aggregates as db_aggregates
from zun.db import services as db
from zun.objects.service import COMPUTE_BINARY

NOUN = "availability_zones"
_KEY = "availability_zone"


class AvailabilityZones:
    def __init__(self, dependencies: Dependencies) -> None:
        self._settings = dependencies.settings

    def routes(self) -> Sequence[Route]:
        return (Route("GET", NOUN, self.index, query=paging.LISTED, returns=views.Zones),)

    def index(self, call: Call) -> Answer:
        """List the zones. The markers of this list are zone names, because a zone has no uuid."""
        page = paging.Page.read(call, paging.LISTED, default_key=_KEY, max_limit=self._settings.max_limit)
        call.access.require("availability_zones:get_all")
        if page.sort_key != _KEY:
            raise exceptions.InvalidParameterValue(err=f"sort_key: '{page.sort_key[:64]}' is not {_KEY}.")
        default, down = self._settings.default_availability_zone, page.sort_dir == "desc"
        found = sorted(_zones(default), reverse=down)
        if page.marker is not None:
            found = [zone for zone in found if (zone < page.marker if down else zone > page.marker)]
        found = found[: page.limit]
        following = page.next_link(call.base_url, NOUN, found, {})
        return Answer({NOUN: [views.show(zone) for zone in found], "next": following})


def _zones(default: str) -> set[str]:
    """Return the zones that have a service, and the zones that an aggregate names. ``default`` is the zone of hosts
    without one.
    """
    aggregates = db_aggregates.all_aggregates()
    used = {zones.zone_of(row["host"], row[_KEY], aggregates) or default for row in db.all_services(COMPUTE_BINARY)}
    return used | {zone for row in aggregates if (zone := zones.named(row["metadata"]))}
