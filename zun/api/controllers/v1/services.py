# SPDX-License-Identifier: Apache-2.0
"""``/v1/services``: the running services, for administrators."""

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_utils import timeutils

from zun.api import paging
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import Answer, Route
from zun.api.schemas import Schema
from zun.api.schemas import services as schemas
from zun.api.views import services as views
from zun.common import exceptions, zones
from zun.db import aggregates as db_aggregates
from zun.db import services as db
from zun.objects.service import COMPUTE_BINARY, is_up


class Services:
    def __init__(self, dependencies: Dependencies) -> None:
        self._settings = dependencies.settings

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "services", self.index, query=paging.LISTED, returns=views.Services),
            Route("DELETE", "services", self.delete, query=schemas.DELETE, returns=None),
            *(
                Route("PUT", f"services/{name}", handler, arguments=schema, returns=views.ChangedService)
                for name, handler, schema in (
                    ("enable", self.enable, schemas.ENABLE),
                    ("disable", self.disable, schemas.DISABLE),
                    ("force_down", self.force_down, schemas.FORCE_DOWN),
                )
            ),
        )

    def index(self, call: Call) -> Answer:
        """List all services and ignore paging: stock clients ask for pages but never got one.

        Every zun-compute comes first: clients take the first service for a host.
        """
        paging.check_names(call.query, paging.LISTED.names, call.version)
        call.access.require("zun-service:get_all")
        now, aggregates = timeutils.utcnow(), db_aggregates.all_aggregates()
        default = self._settings.default_availability_zone
        return Answer(
            {
                "services": [
                    views.show(
                        row,
                        up=is_up(row, now, self._settings.service_down_time),
                        zone=_zone(row, aggregates) or default,
                    )
                    for row in sorted(db.all_services(), key=lambda row: bool(row["binary"] != COMPUTE_BINARY))
                ]
            }
        )

    def enable(self, call: Call) -> Answer:
        given = self._checked(call, "enable", schemas.ENABLE, call.arguments)
        return self._changed(given, {"disabled": False, "disabled_reason": None}, drain=None)

    def disable(self, call: Call) -> Answer:
        given = self._checked(call, "disable", schemas.DISABLE, call.arguments)
        return self._changed(given, {"disabled": True, "disabled_reason": given.get("disabled_reason")})

    def force_down(self, call: Call) -> Answer:
        given = self._checked(call, "force_down", schemas.FORCE_DOWN, call.arguments)
        return self._changed(given, {"forced_down": given["forced_down"]})

    def delete(self, call: Call) -> Answer:
        given = self._checked(call, "delete", schemas.DELETE, call.query)
        db.destroy(given["host"], given["binary"])
        return Answer()

    def _checked(self, call: Call, action: str, schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = schema(arguments)
        call.access.require(f"zun-service:{action}")
        binary, host = given["binary"], given["host"]
        if action != "delete" and db.get(host, binary)["binary"] != COMPUTE_BINARY:
            raise exceptions.InvalidParameterValue(
                err=f"{binary} of {host} cannot be changed: only {COMPUTE_BINARY} can be enabled, disabled and forced "
                "down. Stop the program instead, and delete the service if it does not come back."
            )
        return given

    def _changed(self, service: Mapping[str, Any], values: Mapping[str, Any], **unshown: Any) -> Answer:
        db.update(service["host"], service["binary"], {**values, **unshown})
        return Answer({"service": {"host": service["host"], "binary": service["binary"], **values}})


def _zone(row: Mapping[str, Any], aggregates: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the zone of a service. Aggregates name hosts, so they say nothing about other programs of a host."""
    own: str | None = row["availability_zone"]
    return zones.zone_of(row["host"], own, aggregates) if row["binary"] == COMPUTE_BINARY else own
