# SPDX-License-Identifier: Apache-2.0
"""``/v1/hosts/{host}/drain``: move the containers of a host to other hosts, some at a time, for administrators."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from zun.api import microversion
from zun.api.controllers.v1 import host_up, one_container
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import NOTHING, Answer, Route
from zun.api.schemas import hosts as schemas
from zun.api.views import hosts as views
from zun.common import exceptions
from zun.db import compute_nodes as db
from zun.db import departures, drains, evacuations
from zun.messaging.scheduler_api import SchedulerAPI

PARALLEL = 2
"""The default of ``parallel``: how many containers of a host move at the same time."""

UNMOVED = (
    "Hosts of the release before cannot let containers leave. Upgrade all hosts, and remove [upgrade_levels] compute; "
    "nothing was moved."
)


class Drains:
    def __init__(self, dependencies: Dependencies) -> None:
        self._compute = dependencies.compute_api
        self._scheduler = dependencies.scheduler_api
        self._settings = dependencies.settings

    def routes(self) -> Sequence[Route]:
        place, since = "hosts/{host}/drain", microversion.MOVES
        return (
            Route(
                "POST",
                place,
                self.begin,
                since=since,
                waits=True,
                json_only=True,
                body=schemas.DRAIN,
                returns=views.Drain,
            ),
            Route("GET", place, self.show, since=since, returns=views.Drain),
            Route("DELETE", place, self.end, since=since, returns=NOTHING, status=204),
        )

    def begin(self, call: Call) -> Answer:
        """Let the host get no new containers and have those that it has moved, unless it is a dry run.

        The answer does not wait for the moves. For a drain that is under way, what could not move is tried again.
        """
        given = schemas.DRAIN(call.body)
        call.access.require("host:drain")
        host = _host(call)
        before = drains.wishes().get(host, {"parallel": PARALLEL, "discard_layer": False})
        parallel, discard_layer = (given.get(name, before[name]) for name in ("parallel", "discard_layer"))
        if given.get("dry_run"):
            told = {"parallel": parallel, "discard_layer": discard_layer, "since": None}
            return Answer(views.drain(host, told, self._planned(call, host)))
        if not self._compute.can_act("leave"):
            raise exceptions.Conflict(UNMOVED)
        if not host_up.is_up(host, self._settings):
            raise exceptions.Conflict(
                f"Host {host} is down, and cannot let its containers leave. If it will not be back soon, switch it off "
                f"and evacuate it: 'openstack appcontainer host evacuate {host} --host-is-down'."
            )
        drains.begin(host, parallel=parallel, discard_layer=discard_layer, who=one_container.who(call))
        return Answer(self._told(host))

    def show(self, call: Call) -> Answer:
        call.access.require("host:drain")
        return Answer(self._told(_host(call)))

    def end(self, call: Call) -> Answer:
        """Let the host get containers again. What is on its way goes on; nothing comes back to the host by itself."""
        call.access.require("host:drain")
        host = _host(call)
        _wish(host)
        drains.end(host)
        return Answer()

    @staticmethod
    def _told(host: str) -> views.Drain:
        wish = _wish(host)
        return views.drain(host, wish, drains.report(host, wish))

    def _planned(self, call: Call, host: str) -> list[Mapping[str, Any]]:
        """Return what a drain would do, if everything else stayed as it is."""
        rows = evacuations.containers_of(host)
        reasons = {row["uuid"]: departures.obstacle(row) for row in rows}
        able = [uuid for uuid, reason in reasons.items() if reason is None]
        found = self._scheduler.find_places(call.context, able, host) if able else {}
        planned: list[Mapping[str, Any]] = []
        for row in rows:
            place = found.get(row["uuid"], {"host": None, "reason": reasons[row["uuid"]] or "it has changed meanwhile"})
            told = {"container": row["uuid"], "name": row["name"], "to": place["host"], "reason": place["reason"]}
            if drains.waits(row):
                told["reason"] = None
            planned.append({**told, "state": "waits" if told["reason"] is None else "stays"})
        return planned


def _host(call: Call) -> str:
    """Return the name of the host in the path. Raises ComputeNodeNotFound."""
    return str(db.find(call.parameters["host"])["hostname"])


def _wish(host: str) -> Mapping[str, Any]:
    """Return the drain of the host that is under way. Raises ResourceNotFound, with the command that begins one."""
    wish = drains.wishes().get(host)
    if wish is None:
        raise exceptions.ResourceNotFound(
            f"Host {host} is not being drained. 'openstack appcontainer host drain {host}' begins that."
        )
    return wish


def check_place(scheduler: SchedulerAPI, call: Call, uuid: str, host: str, to: str | None) -> None:
    """Raise Conflict if no other host, or not the host ``to``, can take the container that leaves ``host``."""
    found = scheduler.find_places(call.context, [uuid], host, to)
    with contextlib.suppress(KeyError):  # it was deleted a moment ago
        if (reason := found[uuid]["reason"]) is not None:
            raise exceptions.Conflict(f"Container {uuid} stays on host {host}: {reason}")
