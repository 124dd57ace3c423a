# SPDX-License-Identifier: Apache-2.0
"""``/v1/containers``: the containers of a project.

A handler checks in the order on which clients rely: form (400), existence (404), policy (403), status (409). Then it
writes the row and sends a message. It waits for a host only if the host's answer is the response.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oslo_utils import timeutils, uuidutils

from zun.api import all_projects, creation, devices, microversion, paging
from zun.api.controllers.v1 import host_up, one_container, requested
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.controllers.v1.set_members import SetMembers
from zun.api.controllers.v1.sub_actions import SubActions
from zun.api.microversion import v1
from zun.api.parsing import whole_number
from zun.api.request import Call
from zun.api.routes import NO_CONTENT, NOTHING, Answer, Route
from zun.api.schemas import Field
from zun.api.schemas import containers as schemas
from zun.api.views import containers as views
from zun.common import exceptions, states
from zun.common.sets import CELL, SetRules
from zun.common.states import Status
from zun.db import containers as db
from zun.db import network_ports as db_ports
from zun.db import sets as db_sets
from zun.objects import Container
from zun.topology import CPUPolicy

NOUN = views.NOUN
STOP_BEFORE_DELETE_SECONDS = 10

_FILTERS = ("name", "image", "project_id", "user_id", "memory", "host", "task_state", "status", "auto_remove")
_LIST = paging.parameters(
    **{**dict.fromkeys(_FILTERS, paging.TEXT), "memory": Field({"type": "integer"}), "auto_remove": paging.FLAG},
    all_projects=paging.FLAG,
)


class Containers:
    def __init__(self, dependencies: Dependencies) -> None:
        self._scheduler = dependencies.scheduler_api
        self._compute = dependencies.compute_api
        self._settings = dependencies.settings
        self._images = dependencies.images
        self._networks = dependencies.networks
        self._volumes = dependencies.volumes
        self._create_schemas = schemas.create(dependencies.settings)
        self._update_schema = schemas.update(dependencies.settings)
        self._members = SetMembers(dependencies)
        self._sub_actions = SubActions(dependencies)
        self._random = random.Random()

    def routes(self) -> Sequence[Route]:
        item = "containers/{ident}"
        return (
            Route("GET", "containers", self.index, query=_LIST, returns=views.Containers, tagged=True),
            Route(
                "POST",
                "containers",
                self.create,
                json_only=True,
                query=schemas.CREATE_QUERY,
                body=self._create_schemas,
                returns=views.Container,
                status=202,
            ),
            Route("GET", item, self.show, query=all_projects.OF_ONE, returns=views.Container, tagged=True),
            Route("PATCH", item, self.update, waits=True, arguments=self._update_schema, returns=views.Container),
            Route("DELETE", item, self.delete, query=schemas.DELETE_QUERY, returns=NOTHING, status=204),
            *self._sub_actions.routes(),
        )

    # The collection.

    def index(self, call: Call) -> Answer:
        query = call.query
        page = paging.Page.read(call, _LIST, default_key="id", max_limit=self._settings.max_limit)
        call.access.require("container:get_all")
        everywhere = all_projects.permitted(call, "container:get_all_all_projects")
        if "host" in query or query.get("sort_key") == "host":  # in their order one sees which are together
            call.access.require("container:get_one:host")
        given = {name: query[name] for name in _FILTERS if name in query}
        visible = one_container.visible(call.access)
        uuids: list[str] = []

        names = (*views.COLUMNS, *sorted(visible))
        filters = _typed(given)

        def shown() -> Iterator[list[views.Container]]:
            for found in db.page(
                call.context,
                names,
                filters=filters,
                all_projects=everywhere,
                unread=views.PASSED_ON,
                **page.place,
            ):
                uuids.extend(found["uuid"])
                yield views.page(found, call.version, now=timeutils.utcnow(), visible=visible)

        def written() -> tuple[bytes, ...]:
            carried = {**all_projects.carried(everywhere), **given}
            return paging.written("containers", shown(), lambda: page.next_link(call.base_url, NOUN, uuids, carried))

        revisions = db.page_revisions(call.context, filters=filters, all_projects=everywhere, **page.place)
        return Answer(written, state=one_container.state(visible, revisions))

    def create(self, call: Call) -> Answer:
        run = schemas.CREATE_QUERY(call.query).get("run", False)
        given = self._create_schemas[call.version](call.body)
        if given.get("set") is not None and given.get("count") is None:
            raise exceptions.InvalidValue("set: rules of a set need count, the number of its members. Send it too.")
        call.access.require("container:create")
        fields = requested.fields(
            call, given, run=run, settings=self._settings, service=self._images, volumes=self._volumes
        )
        requested.check_isolation(call.access, fields["placement"])
        fields["request"] |= requested.charged_later(call.context, fields, self._settings)
        fields.setdefault("name", creation.generated_name(self._random))
        fields["security_groups"] = self._networks.security_groups(call.context, given.get("security_groups"))
        if given.get("count") is not None:
            return self._create_set(call, given, fields)
        uuid = fields["uuid"] = uuidutils.generate_uuid()
        try:
            with self._networks.group_of(call.context, uuid, fields["exposed_ports"] or ()) as own_group:
                groups = fields["security_groups"] = fields["security_groups"] or own_group
                with (
                    self._networks.first_ports(call.context, uuid, given.get("nets"), groups) as wanted,
                    self._volumes.made(call.context, fields),
                ):
                    asked = (each.get("function") for each in wanted)
                    fields["placement"] = devices.with_functions(fields["placement"], asked)
                    container = Container(call.context, **call.access.own, **fields)
                    self._insert(container, wanted, may_rename=not given.get("name"))
        except exceptions.GroupNotFound:  # deleted since it was looked up
            raise requested.no_group(fields["group_uuid"]) from None
        with one_container.creation_recorded(call, container):
            one_container.schedule(self._scheduler, call.context, container)
        return Answer(one_container.shown(container, call, fresh=True), created=container.uuid)

    def _create_set(self, call: Call, given: Mapping[str, Any], fields: Mapping[str, Any]) -> Answer:
        """Write a set and its members, and answer with the first member."""
        self._members.check(given)
        try:
            rules = SetRules.of(given["count"], given.get("set") or {})
        except ValueError as exc:
            raise exceptions.InvalidValue(f"{exc}.") from None
        if rules.spread == CELL and fields["cpu_policy"] == CPUPolicy.SHARED:
            raise exceptions.InvalidValue(
                "set.spread cell is for containers with CPUs of their own: send cpu_policy dedicated, or spread host."
            )
        uuid, name = uuidutils.generate_uuid(), fields["name"]
        template = {
            "fields": {field: value for field, value in fields.items() if field != "name"},
            "nets": given.get("nets"),
        }
        values = {
            **call.access.own,
            "uuid": uuid,
            "name": name,
            "count": rules.count,
            "min_count": rules.min_count,
            "rules": rules.to_dict(),
            "template": template,
        }
        try:
            with self._members.made(call, template, uuid, name, range(rules.count)) as (rows, ports):
                settings = self._settings
                db_sets.insert(values, rows, one_container.who(call), settings.quota, ports, settings.unique_names)
        except exceptions.GroupNotFound:  # deleted since it was looked up
            raise requested.no_group(fields["group_uuid"]) from None
        self._members.schedule(call, uuid, [row["uuid"] for row in rows])
        first = Container.get_by_uuid(call.context, rows[0]["uuid"])
        return Answer(one_container.shown(first, call, fresh=True), created=first.uuid)

    def _insert(self, container: Container, wanted: Sequence[Mapping[str, Any]], *, may_rename: bool) -> None:
        """Write the row. ``may_rename``: its name is ours, and there are few such names."""
        unique = self._settings.unique_names
        try:
            container.create(self._settings.quota, wanted, unique)
        except exceptions.ContainerAlreadyExists:
            if not may_rename:
                raise
            container.name = f"{container.name}-{uuidutils.generate_uuid()}"
            container.create(self._settings.quota, wanted, unique)

    # One container.

    def show(self, call: Call) -> Answer:
        everywhere = all_projects.permitted(call, "container:get_one_all_projects")
        row = db.find(call.context, call.parameters["ident"], all_projects=everywhere, members=True)
        call.access.require("container:get_one", row)
        visible = one_container.visible(call.access, row)
        state = one_container.state(visible, *(row[name] for name in db.REVISION_COLUMNS))
        return Answer(lambda: one_container.shown(row, call), state=state)

    def update(self, call: Call) -> Answer:
        given = self._update_schema(call.arguments)
        container = one_container.found(call)
        call.access.require("container:update", container)
        one_container.check_member(container, "update", allowed=True, compute=self._compute)
        states.check_action("update", container)
        size = one_container.new_size(container, given, call, self._settings)
        if size:
            one_container.require_host_up(container, self._settings)
            container = self._compute.update(call.context, container, **size, quota=self._settings.quota)
        one_container.describe(container, given, self._settings)
        return Answer(one_container.shown(container, call))

    def delete(self, call: Call) -> Answer:
        given = schemas.DELETE_QUERY(call.query)
        force, stop = given.get("force", False), given.get("stop", False)
        everywhere = all_projects.permitted(call, "container:delete_all_projects")
        container = one_container.found(call, all_projects=everywhere)
        call.access.require("container:delete", container)
        one_container.check_member(container, "delete", allowed=False, compute=self._compute)
        self._check_delete_gates(call, container, force=force, stop=stop)
        allowed = "delete_after_stop" if stop else "delete_force" if force else "delete"
        states.check_action(allowed, container)
        if container.host is None:
            ports = db_ports.of_container(container.uuid)
            if db.destroy_unplaced(container.uuid):
                self._networks.released(ports)
                self._volumes.released(container.mounts)
                return NO_CONTENT
        if container.host is None:  # a host took it a moment ago, or somebody else removed it
            container = Container.get_by_ident(call.context, container.uuid, everywhere)
        # Also where nothing runs: it may be started before its host gets to this.
        stops = stop and call.access.allows("container:stop", container)
        how = {"force": force, "stop_timeout": STOP_BEFORE_DELETE_SECONDS if stops else None}
        one_container.accept(call, container, "delete", how, rule=allowed, status=Status.DELETING)
        if force and container.host and not host_up.is_up(container.host, self._settings):
            container.abandon()  # its host removes it when it comes back, if ever
        else:
            one_container.tell(self._compute, call, container, "delete", how)
        return NO_CONTENT

    def _check_delete_gates(self, call: Call, container: Container, *, force: bool, stop: bool) -> None:
        """Raise InvalidParamInVersion for ``force`` or ``stop`` in an older version, also if both are given."""
        for name, wanted, since in (("stop", stop, v1(12)), ("force", force, v1(7))):
            if wanted:
                microversion.require_for(name, call.version, since)
        if stop and container.status == Status.RUNNING:
            call.access.require("container:stop", container)
        if force:
            call.access.require("container:delete_force", container)


def _typed(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the filters with the types of their columns."""
    typed: dict[str, Any] = dict(given)
    if "memory" in given:
        typed["memory"] = whole_number(given["memory"])
        if typed["memory"] is None:
            raise exceptions.InvalidValue(f"memory: '{given['memory'][:64]}' is not a whole number of MiB.")
    if "auto_remove" in given:
        typed["auto_remove"] = paging.boolean("auto_remove", given["auto_remove"])
    return typed
