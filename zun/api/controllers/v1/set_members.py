# SPDX-License-Identifier: Apache-2.0
"""The members of container sets: from one checked request to the rows of many containers."""

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oslo_utils import uuidutils

from zun.api import devices
from zun.api.controllers.v1 import one_container
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.common import exceptions
from zun.common.exceptions import on_failure
from zun.db import sets as db
from zun.objects import Container

Row = dict[str, Any]
Nets = dict[str, Sequence[Mapping[str, Any]]]


class SetMembers:
    """Makes rows of members, and sends sets to schedulers."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._scheduler = dependencies.scheduler_api
        self._networks = dependencies.networks
        self._volumes = dependencies.volumes

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise InvalidValue for a field of create that only one container can have, and Conflict for a pin."""
        for each in given.get("nets") or ():
            for name in ("port", "v4-fixed-ip", "v6-fixed-ip"):
                if name in each:
                    raise exceptions.InvalidValue(
                        f"nets: {name} is of one container, but count is {given['count']}. Name the network alone."
                    )
        self._scheduler.check_sets()

    @contextlib.contextmanager
    def made(
        self, call: Call, template: Mapping[str, Any], uuid: str, name: str, numbers: Sequence[int]
    ) -> Iterator[tuple[list[Row], Nets]]:
        """Give the rows of the members with these ``numbers``, and the ports of each by its uuid.

        ``template`` has the ``fields`` of a container without a name, and ``nets``. If the block raises an error, what
        was made for the members at other services is given back.
        """
        rows: list[Row] = []
        ports: Nets = {}
        with contextlib.ExitStack() as stack:
            for number in numbers:
                fields = copy.deepcopy(template["fields"])
                fields |= {"uuid": uuidutils.generate_uuid(), "name": f"{name}-{number}", "set_uuid": uuid}
                own_group = self._networks.group_of(call.context, fields["uuid"], fields["exposed_ports"] or ())
                fields["security_groups"] = fields["security_groups"] or stack.enter_context(own_group)
                first_ports = self._networks.first_ports(
                    call.context, fields["uuid"], template["nets"], fields["security_groups"]
                )
                wanted = stack.enter_context(first_ports)
                stack.enter_context(self._volumes.made(call.context, fields))
                fields["placement"] = devices.with_functions(
                    fields["placement"], (each.get("function") for each in wanted)
                )
                container = Container(call.context, **call.access.own, **fields)
                container.obj_set_defaults()
                rows.append({**container.columns(), "set_index": number})
                ports[fields["uuid"]] = wanted
            yield rows, ports

    def schedule(self, call: Call, uuid: str, members: Sequence[str]) -> None:
        """Send the waiting ``members`` of the set to a scheduler. If that fails, write so into their rows."""

        with on_failure(db.end_waiting, uuid, members, one_container.UNREACHABLE, None):
            self._scheduler.create_set(call.context, uuid)
