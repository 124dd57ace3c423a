# SPDX-License-Identifier: Apache-2.0
"""``/v1/volumes``: volumes that containers of a project mount by name.

A volume begins to exist on the host of the first container that mounts it, so there is no request to create one.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from zun.api import all_projects, microversion, paging
from zun.api.controllers.v1 import host_up
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import NO_CONTENT, NOTHING, Answer, Route
from zun.api.views import volumes as views
from zun.common import exceptions
from zun.db import volumes as db

LOG = logging.getLogger(__name__)


class Volumes:
    def __init__(self, dependencies: Dependencies) -> None:
        self._settings = dependencies.settings
        self._compute = dependencies.compute_api

    def routes(self) -> Sequence[Route]:
        since, item = microversion.VOLUMES, "volumes/{volume}"
        return (
            Route("GET", "volumes", self.index, since=since, query=all_projects.OF_LIST, returns=views.Volumes),
            Route("GET", item, self.show, since=since, returns=views.Volume),
            Route("DELETE", item, self.delete, since=since, returns=NOTHING, status=204),
        )

    def index(self, call: Call) -> Answer:
        page = paging.Page.read(call, all_projects.OF_LIST, default_key="id", max_limit=self._settings.max_limit)
        call.access.require("volume:get_all")
        everywhere = all_projects.permitted(call, "volume:get_all_all_projects")
        if call.query.get("sort_key") == "host":  # in their order one sees which are together
            call.access.require("volume:get:host")
        rows = db.page(call.context, all_projects=everywhere, **page.place)
        carried, uuids = all_projects.carried(everywhere), [row["uuid"] for row in rows]
        following = page.next_link(call.base_url, views.NOUN, uuids, carried)
        return Answer({"volumes": self._shown(rows, call), "next": following})

    def show(self, call: Call) -> Answer:
        row = self._found(call)
        call.access.require("volume:get", row)
        (shown,) = self._shown([row], call)
        return Answer(shown)

    def delete(self, call: Call) -> Answer:
        row = self._found(call)
        call.access.require("volume:delete", row)
        db.begin_to_delete(row["uuid"])
        if host_up.is_given_up(row["host"]):
            db.destroy(row["uuid"])
            return NO_CONTENT
        try:
            self._compute.remove_volumes(call.context, row["host"])
        except exceptions.Unavailable as exc:  # the host looks by itself for what is left to remove
            LOG.warning("Volume %s is removed later: %s", row["uuid"], exc)
        return NO_CONTENT

    @staticmethod
    def _found(call: Call) -> dict[str, Any]:
        """Return the volume, usable as a target of policy. Inside its project it has no owner."""
        return {**db.find(call.context, call.parameters["volume"]), "user_id": None}

    @staticmethod
    def _shown(rows: Sequence[Mapping[str, Any]], call: Call) -> list[views.Volume]:
        mounted = db.mounted({row["project_id"] for row in rows})
        return [
            views.show(
                row,
                call.base_url,
                host=call.access.allows("volume:get:host", {"project_id": row["project_id"], "user_id": None}),
                mounted=(row["project_id"], row["name"]) in mounted,
            )
            for row in rows
        ]
