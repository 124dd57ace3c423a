# SPDX-License-Identifier: Apache-2.0
"""``/v1/networks``: networks in which containers of a project reach each other.

A network is a row. Each host that runs a container of the network makes the bridge there, so no request waits for a
host.
"""

from collections.abc import Sequence

from zun.api import all_projects, microversion, paging
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.microversion import v1
from zun.api.request import Call
from zun.api.routes import NO_CONTENT, NOTHING, Answer, Route
from zun.api.schemas import networks as schemas
from zun.api.views import networks as views
from zun.common import exceptions
from zun.db import networks as db


class Networks:
    def __init__(self, dependencies: Dependencies) -> None:
        self._settings = dependencies.settings

    def routes(self) -> Sequence[Route]:
        since, item = microversion.NETWORKS, "networks/{network}"
        return (
            Route("GET", "networks", self.index, since=since, query=all_projects.OF_LIST, returns=views.NetworkList),
            Route("POST", "networks", self.create, json_only=True, body=schemas.CREATE, returns=views.Network),
            Route("GET", item, self.show, since=since, returns=views.Network),
            Route("DELETE", item, self.delete, since=v1(27), returns=NOTHING, status=204),
        )

    def index(self, call: Call) -> Answer:
        page = paging.Page.read(call, all_projects.OF_LIST, default_key="id", max_limit=self._settings.max_limit)
        call.access.require("network:get_all")
        everywhere = all_projects.permitted(call, "network:get_all_all_projects")
        rows = db.page(call.context, all_projects=everywhere, **page.place)
        carried, uuids = all_projects.carried(everywhere), [row["uuid"] for row in rows]
        following = page.next_link(call.base_url, views.NOUN, uuids, carried)
        return Answer({"networks": [views.show(row, call.version) for row in rows], "next": following})

    def create(self, call: Call) -> Answer:
        given = schemas.CREATE[call.version](call.body)
        call.access.require("network:create")
        if self._settings.neutron:
            raise exceptions.Conflict(
                "The networks of this cloud are Neutron's. Make one with 'openstack network create', and name the "
                "network in nets of a container: it needs no other preparation."
            )
        owner = given.get("project_id", call.context.project_id)
        if owner != call.context.project_id:
            call.access.require("network:create:project")
        for field in ("subnets", "shared"):
            if given.get(field):
                call.access.require(f"network:create:{field}")
        values = {
            "name": given["name"],
            "neutron_net_id": given.get("neutron_net_id"),
            "project_id": owner,
            "user_id": call.context.user_id,
            "shared": given.get("shared", False),
        }
        row = db.insert(values, given.get("subnets") or (), self._settings.subnet_pool, self._settings.quota)
        return Answer(views.show(row, call.version, call.base_url))

    def show(self, call: Call) -> Answer:
        row = db.find(call.context, call.parameters["network"])
        call.access.require("network:get_one", None if row["shared"] else row)
        return Answer(views.show(row, call.version, call.base_url))

    def delete(self, call: Call) -> Answer:
        row = db.find_to_change(call.context, call.parameters["network"])
        call.access.require("network:delete", row)
        db.destroy(row["uuid"])
        return NO_CONTENT
