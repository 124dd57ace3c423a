# SPDX-License-Identifier: Apache-2.0
"""The facts of the rules, read from the database."""

from dataclasses import dataclass, field

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

    def container(self, uuid: str) -> Owner | None:
        return _owner(db.owner_of_container(uuid))

    def sent_to(self, host: str, uuid: str, permit: object) -> bool:
        return self.permits.allows(permit, host, uuid)

    def image_host(self, uuid: str) -> str | None:
        return db.host_of_image(uuid)

    def port_owner(self, uuid: str) -> Owner | None:
        return _owner(db.owner_of_port(uuid))

    def event_owner(self, event_id: int) -> Owner | None:
        return _owner(db.owner_of_event(event_id))

    def token_owner(self, token_hash: str) -> Owner | None:
        return _owner(db.owner_of_token(token_hash))

    def volume_host(self, uuid: str) -> str | None:
        return db.host_of_volume(uuid)

    def pulls_with(self, host: str, registry: str) -> bool:
        return db.pulls_with(host, registry)

    def has_project(self, host: str, project_id: str) -> bool:
        return db.has_project(host, project_id)


def _owner(row: session.Row | None) -> Owner | None:
    if row is None:
        return None
    return Owner(row["host"], waiting=row["host"] is None and row["status"] == Status.CREATING)
