# SPDX-License-Identifier: Apache-2.0
"""``/v1/containers/{ident}/container_actions``: the actions that were asked of a container, and their results."""

from collections.abc import Sequence

from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import Answer, Route
from zun.api.views import container_actions as views
from zun.db import container_actions as db
from zun.db import containers as db_containers
from zun.db.session import Row


class ContainerActions:
    def __init__(self, dependencies: Dependencies) -> None:
        """Take the arguments of every controller; this one needs none of them."""

    def routes(self) -> Sequence[Route]:
        path = "containers/{ident}/container_actions"
        return (
            Route("GET", path, self.index, returns=views.Actions),
            Route("GET", f"{path}/{{request_id}}", self.show, returns=views.ActionWithEvents),
        )

    def index(self, call: Call) -> Answer:
        container = self._container(call)
        rows = db.of_container(container["uuid"])
        clients = self._clients(call, container)
        return Answer({"containerActions": [views.show(row, call.version, clients=clients) for row in rows]})

    def show(self, call: Call) -> Answer:
        container = self._container(call)
        action, events = db.find(container["uuid"], call.parameters["request_id"])
        tracebacks = call.access.allows("container:action:events", container)
        clients = self._clients(call, container)
        return Answer(views.with_events(action, events, call.version, clients=clients, tracebacks=tracebacks))

    @staticmethod
    def _clients(call: Call, container: Row) -> bool:
        return call.access.allows("container:action:client_address", container)

    def _container(self, call: Call) -> Row:
        container = db_containers.find(call.context, call.parameters["ident"], members=True)
        call.access.require("container:actions", container)
        return container
