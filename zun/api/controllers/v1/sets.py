# SPDX-License-Identifier: Apache-2.0
"""``/v1/sets``: equal containers that were asked for in one request and are placed together.

``POST /v1/containers`` with ``count`` makes a set.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from zun.api import all_projects, microversion, paging
from zun.api.controllers.v1 import one_container
from zun.api.controllers.v1.containers import STOP_BEFORE_DELETE_SECONDS
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.controllers.v1.set_members import SetMembers
from zun.api.request import Call
from zun.api.routes import NO_CONTENT, NOTHING, Answer, Route
from zun.api.schemas import sets as schemas
from zun.api.views import sets as views
from zun.common import exceptions, states
from zun.common.sets import BY_FORCE
from zun.common.states import Status
from zun.db import network_ports as db_ports
from zun.db import sets as db
from zun.objects import Container

Row = Mapping[str, Any]


class Sets:
    def __init__(self, dependencies: Dependencies) -> None:
        self._compute = dependencies.compute_api
        self._settings = dependencies.settings
        self._networks = dependencies.networks
        self._volumes = dependencies.volumes
        self._members = SetMembers(dependencies)

    def routes(self) -> Sequence[Route]:
        since, item, one = microversion.SETS, "sets/{set}", views.ContainerSet
        return (
            Route("GET", "sets", self.index, since=since, query=all_projects.OF_LIST, returns=views.ContainerSets),
            Route("GET", item, self.show, since=since, returns=one),
            Route("POST", f"{item}/start", self.start, since=since, arguments=schemas.NONE, returns=one, status=202),
            Route("POST", f"{item}/stop", self.stop, since=since, arguments=schemas.STOP, returns=one, status=202),
            Route(
                "POST", f"{item}/replace", self.replace, since=since, arguments=schemas.NONE, returns=one, status=202
            ),
            Route("DELETE", item, self.delete, since=since, query=schemas.DELETE_QUERY, returns=NOTHING, status=204),
        )

    def index(self, call: Call) -> Answer:
        page = paging.Page.read(call, all_projects.OF_LIST, default_key="id", max_limit=self._settings.max_limit)
        call.access.require("set:get_all")
        everywhere = all_projects.permitted(call, "set:get_all_all_projects")
        rows = db.page(call.context, all_projects=everywhere, **page.place)
        uuids = [row["uuid"] for row in rows]
        members = db.shown_members(uuids)
        return Answer(
            {
                "sets": [views.show(row, members.get(row["uuid"], ()), call.base_url) for row in rows],
                "next": page.next_link(call.base_url, views.NOUN, uuids, all_projects.carried(everywhere)),
            }
        )

    def show(self, call: Call) -> Answer:
        row = self._found(call)
        call.access.require("set:get", row)
        return self._shown(row, call)

    def start(self, call: Call) -> Answer:
        schemas.NONE(call.arguments)
        row = self._found(call)
        call.access.require("set:start", row)
        return self._act(call, row, "start", {})

    def stop(self, call: Call) -> Answer:
        given = schemas.STOP(call.arguments)
        row = self._found(call)
        call.access.require("set:stop", row)
        return self._act(call, row, "stop", given)

    def replace(self, call: Call) -> Answer:
        """Delete the lost members, and create others under their names and numbers, by the rules of the set."""
        schemas.NONE(call.arguments)
        row = self._found(call)
        call.access.require("set:replace", row)
        lost = db.lost(row)
        if not lost.numbers:
            raise exceptions.Conflict(
                f"Set {row['name']} ({row['uuid']}) has no lost member: one that is missing, or in Error or Dead."
            )
        uuids = [each["uuid"] for each in lost.rows]
        self._released(db.remove_unplaced(uuids))
        self._tell(
            call,
            db.accept(
                row["uuid"],
                "delete",
                allowed=states.ALLOWED["delete_force"],
                values={"status": Status.DELETING},
                arguments=BY_FORCE,
                who=one_container.who(call),
                only=uuids,
            ),
            "delete",
            BY_FORCE,
        )
        with self._members.made(call, row["template"], row["uuid"], row["name"], lost.numbers) as (rows, ports):
            db.add_members(
                row["uuid"], rows, one_container.who(call), self._settings.quota, ports, self._settings.unique_names
            )
        self._members.schedule(call, row["uuid"], [each["uuid"] for each in rows])
        return self._shown(self._found(call), call)

    def delete(self, call: Call) -> Answer:
        given = schemas.DELETE_QUERY(call.query)
        everywhere = all_projects.permitted(call, "set:delete_all_projects")
        row = db.find(call.context, call.parameters["set"], all_projects=everywhere)
        call.access.require("set:delete", row)
        force, stop = given.get("force", False), given.get("stop", False)
        if force:
            call.access.require("container:delete_force")
        rule = "delete_after_stop" if stop else "delete_force" if force else "delete"
        how = {"force": force, "stop_timeout": STOP_BEFORE_DELETE_SECONDS if stop else None}
        try:
            removed, deleting = db.delete(row["uuid"], states.ALLOWED[rule], how, one_container.who(call))
        except exceptions.StatusChanged as exc:
            raise exceptions.Conflict(
                f"Set {row['name']} ({row['uuid']}) cannot be deleted: its member {exc.fields['uuid']} is "
                f"{exc.fields['old']}. Send stop=true or force=true in the query, or run 'openstack appcontainer set "
                f"delete --stop {row['name']}'. Nothing was deleted."
            ) from None
        self._released(removed)
        self._tell(call, deleting, "delete", how)
        return NO_CONTENT

    def _act(self, call: Call, row: Row, action: str, arguments: Mapping[str, Any]) -> Answer:
        """Accept the action for each member whose status allows it. Raise Conflict if no member's status does."""
        able = db.accept(
            row["uuid"],
            action,
            allowed=states.ALLOWED[action],
            values={},
            arguments=arguments,
            who=one_container.who(call),
        )
        if not able:
            raise exceptions.Conflict(
                f"Cannot {action} set {row['name']} ({row['uuid']}): no member is {_either(states.ALLOWED[action])}."
            )
        self._tell(call, able, action, arguments)
        return self._shown(row, call)

    def _tell(self, call: Call, rows: Sequence[Row], action: str, arguments: Mapping[str, Any]) -> None:
        for each in rows:
            one_container.tell(self._compute, call, Container.from_row(call.context, each), action, arguments)

    def _released(self, removed: Sequence[Row]) -> None:
        """Give back what other services have for members that were removed before a host had them."""
        for each in removed:
            self._networks.released(db_ports.of_container(each["uuid"]))
            self._volumes.released(each["mounts"])

    def _found(self, call: Call) -> Row:
        return db.find(call.context, call.parameters["set"])

    def _shown(self, row: Row, call: Call) -> Answer:
        return Answer(views.show(row, db.shown_members([row["uuid"]]).get(row["uuid"], ()), call.base_url))


def _either(statuses: Collection[str]) -> str:
    *others, last = sorted(statuses)
    return f"{', '.join(others)} or {last}" if others else last
