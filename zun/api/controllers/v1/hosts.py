# SPDX-License-Identifier: Apache-2.0
"""``/v1/hosts``: the compute hosts, their resources and who holds them, for administrators."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zun.api import microversion, paging
from zun.api.controllers.v1 import host_up, one_container
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.controllers.v1.drains import Drains
from zun.api.free_amounts import FreeAmounts
from zun.api.microversion import v1
from zun.api.policy import Access
from zun.api.request import Call
from zun.api.routes import Answer, Route
from zun.api.schemas import hosts as schemas
from zun.api.views import hosts as views
from zun.common import exceptions, zones
from zun.common.states import Kind
from zun.db import aggregates as db_aggregates
from zun.db import compute_nodes as db
from zun.db import containers as db_containers
from zun.db import evacuations
from zun.db.compute_nodes import HostUsage
from zun.objects import Container

LOG = logging.getLogger(__name__)
NOTHING_HELD = HostUsage()
Row = Mapping[str, Any]


def _aggregates(call: Call) -> list[dict[str, Any]] | None:
    """Return the members of aggregates that hosts show from the version ``MAP`` on; None before."""
    if call.version < microversion.MAP:
        return None
    names = ("name", "hosts", "metadata")
    return [{name: row[name] for name in names} for row in db_aggregates.all_aggregates()]


def _named(access: Access) -> Callable[[Row], bool]:
    """Return a function that tells of the row of a claim whether the caller may see whose it is: everybody's with the
    right to that, and otherwise what the caller may see of the own project.
    """
    if access.allows("host:topology:holders"):
        return lambda row: True

    def named(row: Row) -> bool:
        rule = "capsule:get" if row["kind"] == Kind.CAPSULE else "container:get_one"
        return bool(row["project_id"] == access.context.project_id and access.allows(rule, row))

    return named


class Hosts:
    def __init__(self, dependencies: Dependencies) -> None:
        self._compute = dependencies.compute_api
        self._scheduler = dependencies.scheduler_api
        self._settings = dependencies.settings
        self._amounts = FreeAmounts()
        self._drains = Drains(dependencies)

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "hosts", self.index, since=v1(4), query=paging.LISTED, returns=views.Hosts, tagged=True),
            Route("GET", "hosts/{host}", self.show, since=v1(4), returns=views.Host, tagged=True),
            Route(
                "GET",
                "hosts/{host}/topology",
                self.topology,
                since=microversion.PLACEMENT,
                returns=views.Topology,
                tagged=True,
            ),
            Route(
                "POST",
                "hosts/{host}/audit",
                self.audit,
                since=microversion.PLACEMENT,
                waits=True,
                arguments=schemas.AUDIT,
                returns=views.Audit,
            ),
            Route(
                "POST",
                "hosts/{host}/evacuate",
                self.evacuate,
                since=microversion.MOVES,
                json_only=True,
                body=schemas.EVACUATE,
                returns=views.Evacuation,
            ),
            *self._drains.routes(),
            Route("GET", "hosts/{host}/traits", self.traits, since=microversion.TRAITS, returns=views.Traits),
            Route(
                "PUT",
                "hosts/{host}/traits",
                self.set_traits,
                since=microversion.TRAITS,
                json_only=True,
                body=schemas.TRAITS,
                returns=views.Traits,
            ),
        )

    def index(self, call: Call) -> Answer:
        page = paging.Page.read(call, paging.LISTED, default_key="hostname", max_limit=self._settings.max_limit)
        call.access.require("host:get_all")

        def shown() -> views.Hosts:
            rows = db.page(**page.place)
            following = page.next_link(call.base_url, views.NOUN, [row["uuid"] for row in rows], {})
            return {"hosts": self._shown(rows, aggregates, call), "next": following}

        aggregates = _aggregates(call)
        return Answer(shown, state=(db.page_revisions(**page.place), aggregates))

    def show(self, call: Call) -> Answer:
        call.access.require("host:get")
        host = db.revision(call.parameters["host"])
        aggregates = _aggregates(call)

        def shown() -> views.Host:
            return self._shown([db.find(host["uuid"])], aggregates, call)[0]

        return Answer(shown, state=(host["uuid"], host["generation"], aggregates))

    def _shown(self, rows: Sequence[Row], aggregates: Sequence[Row] | None, call: Call) -> list[views.Host]:
        usage = db.usage([row["hostname"] for row in rows])
        places = {} if aggregates is None else self._places(rows, aggregates)
        return [
            views.show(
                row,
                usage.get(row["hostname"], NOTHING_HELD),
                call.base_url,
                call.version,
                places.get(row["hostname"]),
            )
            for row in rows
        ]

    def _places(self, rows: Sequence[Row], aggregates: Sequence[Row]) -> dict[str, views.Place]:
        """Return by host name what a host shows from the version ``MAP`` on."""
        amounts, default = self._amounts.of(rows), self._settings.default_availability_zone
        return {
            name: views.Place(
                zones.zone_of(name, row["availability_zone"], aggregates) or default,
                sorted(each["name"] for each in aggregates if name in each["hosts"]),
                amounts[name],
            )
            for row in rows
            for name in [row["hostname"]]
        }

    def topology(self, call: Call) -> Answer:
        call.access.require("host:topology")
        host = db.revision(call.parameters["host"])
        name, named = host["hostname"], _named(call.access)

        def shown() -> views.Topology:
            claims = db_containers.claims([name], db_containers.MAP_COLUMNS)
            parts = db_containers.parts_on(name) if call.version >= microversion.POD_MEMBERS else {}
            return views.topology(db.find(host["uuid"]), claims, call.version, named, parts)

        # The map shows the containers' names, which are not among what a generation is of.
        claims = [
            (*(row[column] for column in db_containers.REVISION_COLUMNS), named(row))
            for row in db_containers.claim_revisions(name)
        ]
        return Answer(shown, state=(host["uuid"], host["generation"], claims))

    def traits(self, call: Call) -> Answer:
        call.access.require("host:traits")
        return Answer(views.of_traits(db.find(call.parameters["host"])))

    def set_traits(self, call: Call) -> Answer:
        """The traits that the agent found stay, whatever is asked."""
        given = schemas.TRAITS(call.body)
        call.access.require("host:set_traits")
        host = db.find(call.parameters["host"])["hostname"]
        return Answer(views.of_traits(db.add_traits(host, given["traits"])))

    def audit(self, call: Call) -> Answer:
        """Audit a host and return its answer."""
        given = schemas.AUDIT(call.arguments)
        call.access.require("host:audit")
        host = db.find(call.parameters["host"])["hostname"]
        host_up.require(host, self._settings)
        answer = self._compute.audit(call.context, host, repair=given.get("repair", False))
        return Answer(views.audit(answer, call.version))

    def evacuate(self, call: Call) -> Answer:
        """Have the containers of a host that is down placed elsewhere, but for those that can live only there.

        Nobody but the operator knows that the host runs no container any more: ``host_is_down`` is the operator's word.
        """
        given = schemas.EVACUATE(call.body)
        call.access.require("host:evacuate")
        host = str(db.find(call.parameters["host"])["hostname"])
        if not given.get("dry_run"):
            if not given.get("host_is_down"):
                raise exceptions.InvalidValue(
                    f"host_is_down: it must be true, by which you say that no container runs on host {host} any more. "
                    "Switch the host off first, or cut it off from networks and storage."
                )
            if host_up.is_up(host, self._settings):
                raise exceptions.Conflict(
                    f"Host {host} is up: its compute service sends heartbeats. Only a host that is down is evacuated."
                )
        taken: list[views.Taken] = []
        for row in evacuations.containers_of(host):
            reason = evacuations.obstacle(row)
            if reason is None and not given.get("dry_run"):
                reason = self._take(call, row)
            runs = evacuations.runs_again(row)
            taken.append({"container": row["uuid"], "name": row["name"], "runs": runs, "reason": reason})
        return Answer({"host": host, "containers": taken})

    def _take(self, call: Call, row: Row) -> str | None:
        """Have a container placed elsewhere. Return why not, or None."""
        generation = evacuations.take(row, **one_container.who(call))
        if generation is None:
            return "it has changed a moment ago: ask again"
        context, uuid = call.context, row["uuid"]
        try:
            self._scheduler.host_changed(context, host=row["host"], generation=generation, uuid=uuid)
            tried = {row["host"]: "it was evacuated"}
            self._scheduler.create(context, Container.get_by_uuid(context, uuid), tried=tried)
        except exceptions.ZunError as exc:  # schedulers search for containers without a host
            LOG.warning("Container %s will be placed later: %s", uuid, exc)
        return None
