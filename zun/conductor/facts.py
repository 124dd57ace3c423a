# SPDX-License-Identifier: Apache-2.0
"""The facts of the rules, read from the database."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from zun.common.states import Status
from zun.conductor.rules import Owner
from zun.db import conductor as db
from zun.db import session
from zun.db.permits import Permits


@dataclass(frozen=True, slots=True)
class Rows:
    """Facts as the rows are now. Containers never change their host for another one, so a fact holds for a call."""

    restoring: bool = False
    permits: Permits = field(default_factory=Permits)
    known: Mapping[str, Owner] = field(default_factory=dict)

    def knowing(self, row: session.Row) -> "Rows":
        """Return facts that need not look for the owner of a container whose ``row`` was just read."""
        if row["host"] is None and row["capsule_uuid"] is not None:
            return self  # it is where its capsule is
        return replace(self, known={row["uuid"]: _owner(row)})

    def container(self, uuid: str) -> Owner | None:
        return self.known.get(uuid) or _found(db.owner_of_container(uuid))

    def sent_to(self, host: str, uuid: str, permit: object) -> bool:
        return self.permits.allows(permit, host, uuid)

    def image_host(self, uuid: str) -> str | None:
        return db.host_of_image(uuid)

    def port_owner(self, uuid: str) -> Owner | None:
        return _found(db.owner_of_port(uuid))

    def event_owner(self, event_id: int) -> Owner | None:
        row = db.owner_of_event(event_id)
        return None if row is None else replace(_owner(row), request_id=row["request_id"])

    def token_owner(self, token_hash: str) -> Owner | None:
        return _found(db.owner_of_token(token_hash))

    def volume_host(self, uuid: str) -> str | None:
        return db.host_of_volume(uuid)

    def pulls_with(self, host: str, registry: str) -> bool:
        return db.pulls_with(host, registry)

    def has_project(self, host: str, project_id: str) -> bool:
        return db.has_project(host, project_id)

    def asked(self, uuid: str, request_id: str, action: str) -> bool:
        return db.asked(uuid, request_id, action)


def _found(row: session.Row | None) -> Owner | None:
    return None if row is None else _owner(row)


def _owner(row: session.Row) -> Owner:
    return Owner(row["host"], waiting=row["host"] is None and row["status"] == Status.CREATING)
