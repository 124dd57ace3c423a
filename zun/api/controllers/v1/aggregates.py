# SPDX-License-Identifier: Apache-2.0
"""``/v1/aggregates``: named sets of hosts, for administrators, with the meaning of Nova's os-aggregates."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from zun.api import microversion, paging
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import NO_CONTENT, NOTHING, Answer, Route
from zun.api.schemas import aggregates as schemas
from zun.api.views import aggregates as views
from zun.common import exceptions, zones
from zun.db import aggregates as db


class Aggregates:
    def __init__(self, dependencies: Dependencies) -> None:
        self._settings = dependencies.settings

    def routes(self) -> Sequence[Route]:
        item = "aggregates/{aggregate}"
        route = functools.partial(Route, since=microversion.GROUPS)
        one = functools.partial(route, returns=views.Aggregate)
        return (
            route("GET", "aggregates", self.index, query=paging.LISTED, returns=views.Aggregates),
            one("POST", "aggregates", self.create, arguments=schemas.CREATE, status=201),
            one("GET", item, self.show),
            one("PATCH", item, self.update, arguments=schemas.UPDATE),
            route("DELETE", item, self.delete, returns=NOTHING, status=204),
            one("POST", f"{item}/add_host", self.add_host, arguments=schemas.HOST),
            one("POST", f"{item}/remove_host", self.remove_host, arguments=schemas.HOST),
            one("POST", f"{item}/set_metadata", self.set_metadata, arguments=schemas.SET_METADATA),
        )

    def index(self, call: Call) -> Answer:
        page = paging.Page.read(call, paging.LISTED, default_key="id", max_limit=self._settings.max_limit)
        call.access.require("aggregate:get_all")
        rows = db.page(**page.place)
        following = page.next_link(call.base_url, views.NOUN, [row["uuid"] for row in rows], {})
        return Answer({"aggregates": [views.show(row, call.base_url) for row in rows], "next": following})

    def create(self, call: Call) -> Answer:
        given = schemas.CREATE(call.arguments)
        call.access.require("aggregate:create")
        metadata = given.get("metadata", {})
        if "availability_zone" in given:
            if metadata.get(zones.KEY, given["availability_zone"]) != given["availability_zone"]:
                raise exceptions.InvalidValue("availability_zone: metadata names another one. Give it once.")
            metadata = {**metadata, zones.KEY: given["availability_zone"]}
        row = db.insert(given["name"], metadata)
        return Answer(views.show(row, call.base_url), created=row["uuid"])

    def show(self, call: Call) -> Answer:
        call.access.require("aggregate:get")
        return self._shown(call, db.find(self._ident(call)))

    def update(self, call: Call) -> Answer:
        given = schemas.UPDATE(call.arguments)
        call.access.require("aggregate:update")
        metadata = {zones.KEY: given["availability_zone"]} if "availability_zone" in given else {}
        return self._shown(call, db.update(self._ident(call), name=given.get("name"), metadata=metadata))

    def delete(self, call: Call) -> Answer:
        call.access.require("aggregate:delete")
        db.destroy(self._ident(call))
        return NO_CONTENT

    def add_host(self, call: Call) -> Answer:
        given = schemas.HOST(call.arguments)
        call.access.require("aggregate:add_host")
        return self._shown(call, db.add_host(self._ident(call), given["host"]))

    def remove_host(self, call: Call) -> Answer:
        given = schemas.HOST(call.arguments)
        call.access.require("aggregate:remove_host")
        return self._shown(call, db.remove_host(self._ident(call), given["host"]))

    def set_metadata(self, call: Call) -> Answer:
        given = schemas.SET_METADATA(call.arguments)
        call.access.require("aggregate:set_metadata")
        return self._shown(call, db.update(self._ident(call), metadata=given["metadata"]))

    def _ident(self, call: Call) -> str:
        return call.parameters["aggregate"]

    def _shown(self, call: Call, row: Mapping[str, Any]) -> Answer:
        return Answer(views.show(row, call.base_url))
