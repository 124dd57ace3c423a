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
from zun.common import zones
from zun.db import aggregates as db_aggregates
from zun.db import services as db
from zun.objects.service import is_up


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
        """List all services and ignore paging: stock clients ask for pages but never got one."""
        paging.check_names(call.query, paging.LISTED.names)
        call.access.require("zun-service:get_all")
        now, aggregates = timeutils.utcnow(), db_aggregates.all_aggregates()
        default = self._settings.default_availability_zone
        return Answer(
            {
                "services": [
                    views.show(
                        row,
                        up=is_up(row, now, self._settings.service_down_time),
                        zone=zones.zone_of(row["host"], row["availability_zone"], aggregates) or default,
                    )
                    for row in db.all_services()
                ]
            }
        )

    def enable(self, call: Call) -> Answer:
        given = self._checked(call, "enable", schemas.ENABLE, call.arguments)
        return self._changed(given, {"disabled": False, "disabled_reason": None})

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
        return given

    def _changed(self, service: Mapping[str, Any], values: Mapping[str, Any]) -> Answer:
        db.update(service["host"], service["binary"], values)
        return Answer({"service": {"host": service["host"], "binary": service["binary"], **values}})
