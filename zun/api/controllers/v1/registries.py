# SPDX-License-Identifier: Apache-2.0
"""``/v1/registries``: where a project's images come from, and the account to get them with."""

from collections.abc import Mapping, Sequence
from typing import Any

from zun.api import all_projects, paging
from zun.api.controllers.v1.parts import Parts
from zun.api.request import Call
from zun.api.routes import NO_CONTENT, NOTHING, Answer, Route
from zun.api.schemas import registries as schemas
from zun.api.views import registries as views
from zun.db import registries as db
from zun.db.session import Row

_LIST = paging.parameters(**dict.fromkeys(sorted(db.FILTERS), paging.TEXT), all_projects=paging.FLAG)


class Registries:
    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings

    def routes(self) -> Sequence[Route]:
        item = "registries/{ident}"
        return (
            Route("GET", "registries", self.index, query=_LIST, returns=views.Registries),
            Route(
                "POST",
                "registries",
                self.create,
                json_only=True,
                body=schemas.CREATE,
                returns=views.OneRegistry,
                status=201,
            ),
            Route("GET", item, self.show, returns=views.OneRegistry),
            Route("PATCH", item, self.update, body=schemas.UPDATE, returns=views.OneRegistry),
            Route("DELETE", item, self.delete, returns=NOTHING, status=204),
        )

    def index(self, call: Call) -> Answer:
        query = call.query
        page = paging.Page.read(query, _LIST, default_key="id", max_limit=self._settings.max_limit)
        call.access.require("registry:get_all")
        everywhere = all_projects.permitted(call, "registry:get_all_all_projects")
        given = {name: query[name] for name in sorted(db.FILTERS) if name in query}
        rows = db.page(call.context, filters=given, all_projects=everywhere, **page.place)
        carried = {**all_projects.carried(everywhere), **given}
        following = page.next_link(call.base_url, views.NOUN, [row["uuid"] for row in rows], carried)
        return Answer({"registries": [views.show(row) for row in rows], "next": following})

    def create(self, call: Call) -> Answer:
        given = schemas.CREATE(call.body)["registry"]
        call.access.require("registry:create")
        row = db.insert({**call.access.own, **self._encrypted(given)})
        return Answer({"registry": views.show(row, call.base_url)}, created=row["uuid"])

    def show(self, call: Call) -> Answer:
        return Answer({"registry": views.show(self._found(call, "registry:get_one"), call.base_url)})

    def update(self, call: Call) -> Answer:
        given = schemas.UPDATE(call.body)["registry"]
        row = self._found(call, "registry:update")
        if given:
            row = db.update(row["uuid"], self._encrypted(given))
        return Answer({"registry": views.show(row, call.base_url)})

    def delete(self, call: Call) -> Answer:
        db.destroy(self._found(call, "registry:delete")["uuid"])
        return NO_CONTENT

    def _found(self, call: Call, rule: str) -> Row:
        row = db.find(call.context, call.parameters["ident"])
        call.access.require(rule, row)
        return row

    def _encrypted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        values = dict(given)
        if "password" in values:
            values["password"] = self._settings.cipher.encrypt(values["password"])
        return values
