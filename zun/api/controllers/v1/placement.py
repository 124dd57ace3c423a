# SPDX-License-Identifier: Apache-2.0
"""``/v1/placement``: questions about containers that do not exist, answered by the scheduler as it would decide."""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_utils import uuidutils

from zun.api import microversion
from zun.api.controllers.v1 import one_container, requested
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import Answer, Route
from zun.api.schemas import containers as schemas
from zun.api.views import placement as views
from zun.common import exceptions
from zun.db import moves
from zun.objects import Container
from zun.topology import CPUPolicy

DEFAULT_LIMIT = 1000


class Placement:
    def __init__(self, dependencies: Dependencies) -> None:
        self._scheduler = dependencies.scheduler_api
        self._settings = dependencies.settings
        self._images = dependencies.images
        self._volumes = dependencies.volumes
        self._dry_run_schema = schemas.shape(dependencies.settings, count=schemas.COUNT)
        self._capacity_schema = schemas.shape(dependencies.settings, limit=schemas.LIMIT)
        self._defragment_schema = schemas.shape(
            dependencies.settings, dry_run=schemas.DRY_RUN, near=schemas.NEAR
        )
        self._compute = dependencies.compute_api

    def routes(self) -> Sequence[Route]:
        question = functools.partial(Route, "POST", since=microversion.QUESTIONS, waits=True, json_only=True)
        return (
            question("placement/dry_run", self.dry_run, body=self._dry_run_schema, returns=views.DryRun),
            question("placement/capacity", self.capacity, body=self._capacity_schema, returns=views.Capacity),
            question(
                "placement/defragment",
                self.defragment,
                since=microversion.MOVES,
                body=self._defragment_schema,
                returns=views.Defragmentation,
            ),
        )

    def dry_run(self, call: Call) -> Answer:
        given = self._dry_run_schema(call.body)
        call.access.require("placement:dry_run")
        container = self._imagined(call, given)
        answer = self._scheduler.dry_run(call.context, container, count=given.get("count", 1))
        return Answer(views.dry_run(answer, hosts=call.access.allows("placement:dry_run:host")))

    def capacity(self, call: Call) -> Answer:
        given = self._capacity_schema(call.body)
        call.access.require("placement:capacity")
        container = self._imagined(call, given)
        answer = self._scheduler.capacity(call.context, container, limit=given.get("limit", DEFAULT_LIMIT))
        return Answer(views.capacity(answer, hosts=call.access.allows("placement:capacity:host")))

    def defragment(self, call: Call) -> Answer:
        """Have containers of one host moved there so that a container of this shape fits, unless it is a dry run.

        With ``near``, so that the containers of the host are on fewer and nearer cells.
        The answer does not wait for the moves: they are actions of the containers.
        """
        given = self._defragment_schema(call.body)
        call.access.require("placement:defragment")
        usual = {"cpu_policy": CPUPolicy.DEDICATED, "memory": int(self._settings.memory.lowest)}
        if given.get("near"):
            usual["cpu"] = 1  # of no container: its host counts
            if not given.get("host"):
                raise exceptions.InvalidValue("near: name the host whose containers shall be nearer, as host.")
        container = self._imagined(call, {**usual, **given})
        answer = self._scheduler.find_moves(call.context, container, near=bool(given.get("near")))
        if given.get("dry_run") or not answer["moves"]:
            return Answer(views.defragmentation(answer))
        if not self._compute.can_act("move"):
            raise exceptions.Conflict(
                "Hosts of the release before cannot move containers. Upgrade all hosts, and remove [upgrade_levels] "
                "compute; nothing was moved."
            )
        accepted, why_not = moves.accept(answer["moves"], **one_container.who(call))
        for uuid in accepted:
            with contextlib.suppress(exceptions.ContainerNotFound):  # it was deleted since
                moved = Container.get_by_uuid(call.context, uuid)
                one_container.tell(self._compute, call, moved, "move", {})
        return Answer(views.defragmentation(answer, len(accepted), why_not))

    def _imagined(self, call: Call, given: Mapping[str, Any]) -> Container:
        """Return the container that a create with these fields would make, without a row."""
        fields = requested.fields(
            call, given, run=False, settings=self._settings, service=self._images, volumes=self._volumes
        )
        empty = {name: None for name, field in Container.fields.items() if field.nullable}
        container = Container(call.context, **{**empty, "uuid": uuidutils.generate_uuid(), **call.access.own, **fields})
        container.obj_set_defaults()
        return container
