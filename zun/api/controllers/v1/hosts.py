# SPDX-License-Identifier: Apache-2.0
"""``/v1/hosts``: the compute hosts, what they have and who holds it, for administrators."""

from collections.abc import Sequence

from zun.api import microversion, paging
from zun.api.controllers.v1 import host_up
from zun.api.controllers.v1.parts import Parts
from zun.api.microversion import v1
from zun.api.request import Call
from zun.api.routes import Answer, Route
from zun.api.schemas import hosts as schemas
from zun.api.views import hosts as views
from zun.db import compute_nodes as db
from zun.db import containers as db_containers
from zun.db.compute_nodes import HostUsage

NOTHING_HELD = HostUsage()


class Hosts:
    def __init__(self, parts: Parts) -> None:
        self._compute = parts.compute_api
        self._settings = parts.settings

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "hosts", self.index, since=v1(4), query=paging.LISTED, returns=views.Hosts),
            Route("GET", "hosts/{host}", self.show, since=v1(4), returns=views.Host),
            Route(
                "GET", "hosts/{host}/topology", self.topology, since=microversion.PLACEMENT, returns=views.Topology
            ),
            Route(
                "POST",
                "hosts/{host}/audit",
                self.audit,
                since=microversion.PLACEMENT,
                arguments=schemas.AUDIT,
                returns=views.Audit,
            ),
        )

    def index(self, call: Call) -> Answer:
        page = paging.Page.read(call.query, paging.LISTED, default_key="hostname", max_limit=self._settings.max_limit)
        call.access.require("host:get_all")
        rows = db.page(**page.place)
        usage = db.usage([row["hostname"] for row in rows])
        shown = [views.show(row, usage.get(row["hostname"], NOTHING_HELD), call.base_url) for row in rows]
        following = page.next_link(call.base_url, views.NOUN, [row["uuid"] for row in rows], {})
        return Answer({"hosts": shown, "next": following})

    def show(self, call: Call) -> Answer:
        call.access.require("host:get")
        row = db.find(call.parameters["host"])
        usage = db.usage([row["hostname"]]).get(row["hostname"], NOTHING_HELD)
        return Answer(views.show(row, usage, call.base_url))

    def topology(self, call: Call) -> Answer:
        call.access.require("host:topology")
        row = db.find(call.parameters["host"])
        return Answer(views.topology(row, db_containers.claims([row["hostname"]])))

    def audit(self, call: Call) -> Answer:
        """The answer is the host's, as it gives it."""
        given = schemas.AUDIT(call.arguments)
        call.access.require("host:audit")
        host = db.find(call.parameters["host"])["hostname"]
        host_up.require(host, self._settings)
        return Answer(self._compute.audit(call.context, host, repair=given.get("repair", False)))
