# SPDX-License-Identifier: Apache-2.0
"""``/v1/images``: images that administrators pulled or projects committed, and searches in registries."""

import random
import urllib.parse
from collections.abc import Sequence
from typing import Any

from zun.api import images, paging
from zun.api.controllers.v1 import host_up
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import Answer, Route
from zun.api.schemas import images as schemas
from zun.api.views import images as views
from zun.common import exceptions
from zun.common.exceptions import on_failure
from zun.db import compute_nodes as db_nodes
from zun.db import images as db
from zun.db.session import Row
from zun.image.driver import GLANCE
from zun.objects.image import is_of_host


class Images:
    def __init__(self, dependencies: Dependencies) -> None:
        self._compute = dependencies.compute_api
        self._settings = dependencies.settings
        self._images = dependencies.images
        self._search_schema = schemas.search(dependencies.settings)
        self._random = random.Random()

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "images", self.index, query=paging.LISTED, returns=views.Images),
            Route("POST", "images", self.pull, json_only=True, body=schemas.PULL, returns=views.Image, status=202),
            Route("GET", "images/{uuid}", self.show, returns=views.Image),
            Route("DELETE", "images/{uuid}", self.delete, returns=None),
            *(
                Route(
                    "GET",
                    f"images/{name}/search",
                    self.search,
                    waits=True,
                    query=self._search_schema,
                    returns=views.Found,
                )
                for name in ("{name}", "{owner}/{name}")
            ),
        )

    def index(self, call: Call) -> Answer:
        page = paging.Page.read(call, paging.LISTED, default_key="id", max_limit=self._settings.max_limit)
        call.access.require("image:get_all")
        rows = db.page(call.context, **page.place)
        following = page.next_link(call.base_url, views.NOUN, [row["uuid"] for row in rows], {})
        return Answer({"images": [views.show(row, call.version, call.base_url) for row in rows], "next": following})

    def pull(self, call: Call) -> Answer:
        given = schemas.PULL(call.body)
        call.access.require("image:pull")
        host = self._host(given["host"])
        host_up.require(host, self._settings)
        reference = given["repo"]
        row = db.insert(
            {
                "project_id": call.context.project_id,
                "host": host,
                "repo": reference.repo,
                "tag": reference.version,
            }
        )
        with on_failure(db.destroy, row["uuid"]):
            self._compute.image_pull(call.context, host, row["uuid"])
        return Answer(views.show(row, call.version, call.base_url), created=row["uuid"])

    def show(self, call: Call) -> Answer:
        row = self._found(call)
        call.access.require("image:get_one", _owned(row))
        return Answer(views.show(row, call.version, call.base_url))

    def delete(self, call: Call) -> Answer:
        row = self._found(call)
        made = row["local_name"] and call.access.allows("image:delete:committed", _owned(row))
        if not made:
            call.access.require("image:delete", _owned(row))
        if host_up.is_given_up(row["host"]):
            db.destroy(row["uuid"])
        else:
            self._compute.image_delete(call.context, row["host"], row["uuid"])
        return Answer()

    def search(self, call: Call) -> Answer:
        given = self._search_schema(call.query)
        call.access.require("image:search")
        owner, name = call.parameters.get("owner"), call.parameters["name"]
        # Some servers leave an escaped slash as it came; no name of an image has a percent sign of its own.
        whole = urllib.parse.unquote(name if owner is None else f"{owner}/{name}")
        exact = given.get("exact_match", False)
        if self._images is not None and (given.get("image_driver") or self._settings.default_image_driver) == GLANCE:
            return Answer(self._images.search(call.context, whole, exact=exact))
        own = images.search_committed(call.context.project_id, whole, exact=exact)
        try:
            found = self._compute.image_search(call.context, self._any_host(), whole, exact=exact)
        except exceptions.Unavailable:
            if not own:
                raise
            found = []
        if not call.access.allows("image:search:host"):
            found = [each for each in found if not is_of_host(each)]
        return Answer([*own, *found])

    @staticmethod
    def _found(call: Call) -> Row:
        return db.get(call.parameters["uuid"], None if call.context.is_admin else call.context.project_id)

    def _host(self, ident: str) -> str:
        try:
            return str(db_nodes.find(ident)["hostname"])
        except exceptions.ComputeNodeNotFound:
            raise exceptions.InvalidValue(
                f"host: '{ident[:64]}' is not a compute host of this cloud. List them with 'openstack appcontainer "
                "host list'."
            ) from None

    def _any_host(self) -> str:
        """Return a host that is up: every host sees the same registries."""
        host = host_up.any_of_all(self._settings, self._random)
        if host is None:
            raise exceptions.Unavailable("No compute host is up that could ask the registries. Try again later.")
        return host


def _owned(row: Row) -> dict[str, Any]:
    """Return an image as a target of policy. Inside its project it has no owner."""
    return {"project_id": row["project_id"], "user_id": None}
