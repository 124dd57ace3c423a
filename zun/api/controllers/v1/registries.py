# SPDX-License-Identifier: Apache-2.0
"""``/v1/registries``: the sources of a project's images and the accounts to pull them with."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_utils import uuidutils

from zun.api import all_projects, paging
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import NO_CONTENT, NOTHING, Answer, Route
from zun.api.schemas import registries as schemas
from zun.api.views import registries as views
from zun.common import exceptions
from zun.db import registries as db
from zun.db.session import Row

_LIST = paging.parameters(**dict.fromkeys(sorted(db.FILTERS), paging.TEXT), all_projects=paging.FLAG)


class Registries:
    def __init__(self, dependencies: Dependencies) -> None:
        self._settings = dependencies.settings

    def routes(self) -> Sequence[Route]:
        item, one = "registries/{ident}", functools.partial(Route, returns=views.OneRegistry)
        return (
            Route("GET", "registries", self.index, query=_LIST, returns=views.Registries),
            one("POST", "registries", self.create, json_only=True, body=schemas.CREATE, status=201),
            one("GET", item, self.show),
            one("PATCH", item, self.update, body=schemas.UPDATE),
            Route("DELETE", item, self.delete, returns=NOTHING, status=204),
        )

    def index(self, call: Call) -> Answer:
        query = call.query
        page = paging.Page.read(call, _LIST, default_key="id", max_limit=self._settings.max_limit)
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
        values = self._encrypted({**call.access.own, "uuid": uuidutils.generate_uuid(), **given}, {})
        row = db.insert(values, self._settings.quota)
        return Answer({"registry": views.show(row, call.base_url)}, created=row["uuid"])

    def show(self, call: Call) -> Answer:
        return Answer({"registry": views.show(self._found(call, "registry:get_one"), call.base_url)})

    def update(self, call: Call) -> Answer:
        given = schemas.UPDATE(call.body)["registry"]
        row = self._found(call, "registry:update")
        if given:
            row = db.update(row["uuid"], lambda row: self._changed(row, given))
        return Answer({"registry": views.show(row, call.base_url)})

    def delete(self, call: Call) -> Answer:
        db.destroy(self._found(call, "registry:delete")["uuid"])
        return NO_CONTENT

    def _found(self, call: Call, rule: str) -> Row:
        row = db.find(call.context, call.parameters["ident"])
        call.access.require(rule, row)
        return row

    def _changed(self, row: Row, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values to write to ``row``. Raises InvalidValue if the stored password would move to another
        account.

        A caller who changes the registry need not know its password, and could have it sent to a host of their own.
        """
        moved = [name for name in ("domain", "username") if name in given and given[name] != row[name]]
        if moved and row["password"] is not None and "password" not in given:
            raise exceptions.InvalidValue(
                f"{' and '.join(moved)}: the stored password is for {row['username'] or 'no user name'} at "
                f"{row['domain']} only. Give the password in the same request."
            )
        return self._encrypted(given, row)

    def _encrypted(self, given: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``given`` with its password, if any, encrypted for the changed ``row``."""
        values = dict(given)
        if "password" in values:
            owner = db.owner({"username": None, **row, **given})
            values["password"] = self._settings.cipher.encrypt(values["password"], owner)
        return values
