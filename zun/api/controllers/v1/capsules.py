# SPDX-License-Identifier: Apache-2.0
"""``/v1/capsules``: groups of containers in one place and with one network."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_utils import timeutils, uuidutils

from zun.api import all_projects, capsules, images, microversion, paging, traits
from zun.api.controllers.v1 import one_container, requested
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import NO_CONTENT, NOTHING, Answer, Route
from zun.api.schemas import capsules as schemas
from zun.api.views import capsules as views
from zun.common import exceptions
from zun.common.probes import grace_of
from zun.common.states import Status
from zun.db import capsules as db
from zun.db import containers as db_containers
from zun.db import network_ports as db_ports
from zun.objects import Container
from zun.objects.image import OF_GLANCE
from zun.objects.placement import MEMBERS


class Capsules:
    def __init__(self, dependencies: Dependencies) -> None:
        self._scheduler = dependencies.scheduler_api
        self._compute = dependencies.compute_api
        self._settings = dependencies.settings
        self._images = dependencies.images
        self._networks = dependencies.networks
        self._volumes = dependencies.volumes
        self._random = random.Random()

    def routes(self) -> Sequence[Route]:
        item = "capsules/{capsule}"
        return (
            Route("GET", "capsules", self.index, query=all_projects.OF_LIST, returns=views.Capsules),
            Route(
                "POST", "capsules", self.create, json_only=True, body=schemas.CREATE, returns=views.Capsule, status=202
            ),
            Route("GET", item, self.show, returns=views.Capsule),
            Route("DELETE", item, self.delete, query=schemas.DELETE_QUERY, returns=NOTHING, status=204),
        )

    def index(self, call: Call) -> Answer:
        page = paging.Page.read(call, all_projects.OF_LIST, default_key="id", max_limit=self._settings.max_limit)
        call.access.require("capsule:get_all")
        # Who may not see the others is not told so, as in the reference.
        everywhere = all_projects.wanted(call) and call.access.allows("capsule:get_all_all_projects")
        if call.query.get("sort_key") == "host":  # in their order one sees which are together
            call.access.require("capsule:get:host")
        rows = db.page(call.context, all_projects=everywhere, **page.place)
        uuids = [row["uuid"] for row in rows]
        members = db.members(uuids)
        return Answer(
            {
                "capsules": [self._shown(row, members[row["uuid"]], call) for row in rows],
                "next": page.next_link(call.base_url, views.NOUN, uuids, all_projects.carried(everywhere)),
            }
        )

    def create(self, call: Call) -> Answer:
        template = schemas.CREATE(call.body)["template"]
        call.access.require("capsule:create")
        driver = self._settings.default_image_driver
        of_service = {
            where: found
            for where, given in capsules.containers_of(template).items()
            if (found := images.of_service(self._images, call.context, driver, given["image"])) is not None
        }
        asked = capsules.asked(
            template,
            uuidutils.generate_uuid(),
            version=call.version,
            settings=self._settings,
            pull_policy=call.access.allows("container:create:image_pull_policy"),
            choose=self._random,
            images=of_service,
        )
        fields = asked.capsule
        for where, member in zip(capsules.containers_of(template), asked.members, strict=True):
            if where in of_service:
                member["request"][OF_GLANCE] = of_service[where].uuid
        for each in (fields, *fields["placement"].get(MEMBERS, ())):
            requested.check_isolation(call.access, each["placement"])
        if fields["placement"].get(MEMBERS) and not self._compute.can_act("capsule_members"):
            raise exceptions.Conflict(
                "Hosts of the release before cannot place the containers of a capsule each in its own way. Upgrade all "
                "hosts, and remove [upgrade_levels] compute; nothing was created."
            )
        fields["placement"] = traits.resolved(fields["placement"])
        fields["request"] |= requested.host_of_volumes(call.context, fields)
        fields["request"] |= requested.charged_later(call.context, fields, self._settings)
        self._volumes.look_up(call.context, fields)
        # As of the reference's: always the default choice of network.
        with (
            self._networks.group_of(call.context, fields["uuid"], fields["exposed_ports"] or ()) as groups,
            self._networks.first_ports(call.context, fields["uuid"], groups=groups) as wanted,
            self._volumes.made(call.context, fields, *asked.members),
        ):
            fields["security_groups"] = groups
            row = db.insert({**fields, **call.access.own}, asked.members, wanted, self._settings.quota)
        one_container.schedule(self._scheduler, call.context, Container.from_row(call.context, row))
        return Answer(self._shown(row, db.members([row["uuid"]])[row["uuid"]], call), created=row["uuid"])

    def show(self, call: Call) -> Answer:
        row = db.find(call.context, call.parameters["capsule"])
        call.access.require("capsule:get", row)
        return Answer(self._shown(row, db.members([row["uuid"]])[row["uuid"]], call))

    def delete(self, call: Call) -> Answer:
        everywhere = all_projects.permitted(call, "capsule:delete_all_projects")
        row = db.find(call.context, call.parameters["capsule"], all_projects=everywhere)
        call.access.require("capsule:delete", row)
        if row["host"] is None:
            ports = db_ports.of_container(row["uuid"])
            if db_containers.destroy_unplaced(row["uuid"]):
                self._networks.released(ports)
                self._volumes.released(row["mounts"])
                return NO_CONTENT
        capsule = Container.get_by_uuid(call.context, row["uuid"])  # a host may have taken it a moment ago
        hurry = call.version >= microversion.POD_MEMBERS and paging.boolean("force", call.query.get("force"))
        how = {"force": True, "stop_timeout": None if hurry else grace_of(row)}
        one_container.accept(call, capsule, "delete", how, rule=None, status=Status.DELETING)
        one_container.tell(self._compute, call, capsule, "delete", how)
        return NO_CONTENT

    def _shown(self, row: Mapping[str, Any], members: Sequence[Mapping[str, Any]], call: Call) -> views.Capsule:
        return views.show(
            row,
            members,
            call.version,
            now=timeutils.utcnow(),
            host=call.access.allows("capsule:get:host", row),
            visible=one_container.visible(call.access, row),
            base_url=call.base_url,
        )
