# SPDX-License-Identifier: Apache-2.0
"""``/v1/groups``: groups of containers that run on the same host, or on different hosts."""

from collections.abc import Mapping, Sequence
from typing import Any

from zun.api import all_projects, microversion, paging
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import NO_CONTENT, NOTHING, Answer, Route
from zun.api.schemas import groups as schemas
from zun.api.views import groups as views
from zun.common import exceptions
from zun.common.groups import Policy
from zun.db import groups as db


class Groups:
    def __init__(self, dependencies: Dependencies) -> None:
        self._settings = dependencies.settings

    def routes(self) -> Sequence[Route]:
        since, item = microversion.GROUPS, "groups/{group}"
        return (
            Route("GET", "groups", self.index, since=since, query=all_projects.OF_LIST, returns=views.Groups),
            Route(
                "POST", "groups", self.create, since=since, arguments=schemas.CREATE, returns=views.Group, status=201
            ),
            Route("GET", item, self.show, since=since, returns=views.Group),
            Route("DELETE", item, self.delete, since=since, returns=NOTHING, status=204),
        )

    def index(self, call: Call) -> Answer:
        page = paging.Page.read(call, all_projects.OF_LIST, default_key="id", max_limit=self._settings.max_limit)
        call.access.require("group:get_all")
        everywhere = all_projects.permitted(call, "group:get_all_all_projects")
        rows = db.page(call.context, all_projects=everywhere, **page.place)
        uuids = [row["uuid"] for row in rows]
        members = db.members(uuids)
        return Answer(
            {
                "groups": [views.show(row, members.get(row["uuid"], ()), call.base_url) for row in rows],
                "next": page.next_link(call.base_url, views.NOUN, uuids, all_projects.carried(everywhere)),
            }
        )

    def create(self, call: Call) -> Answer:
        given = schemas.CREATE(call.arguments)
        call.access.require("group:create")
        rules = given.get("rules", {})
        if rules and given["policy"] != Policy.ANTI_AFFINITY:
            raise exceptions.InvalidValue(
                f"rules: max_per_host is for policy {Policy.ANTI_AFFINITY}; leave it out for {given['policy']}."
            )
        quota = self._settings.quota
        row = db.insert({**call.access.own, "name": given["name"], "policy": given["policy"], "rules": rules}, quota)
        return Answer(views.show(row, (), call.base_url), created=row["uuid"])

    def show(self, call: Call) -> Answer:
        row = self._found(call)
        call.access.require("group:get", row)
        return Answer(views.show(row, db.members([row["uuid"]]).get(row["uuid"], ()), call.base_url))

    def delete(self, call: Call) -> Answer:
        row = self._found(call)
        call.access.require("group:delete", row)
        db.destroy(row["uuid"])
        return NO_CONTENT

    def _found(self, call: Call) -> Mapping[str, Any]:
        return db.find(call.context, call.parameters["group"])
