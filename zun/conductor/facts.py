# SPDX-License-Identifier: Apache-2.0
"""What the rules ask about rows: functions, each of which reads the database unless a test gives another one."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from zun.db import conductor as db
from zun.db import session
from zun.db.conductor import Owner
from zun.db.permits import Permits


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about rows as they are now. A fact is None if the row does not exist; then the operation raises or does
    nothing.

    Containers never change their host for another one, so a fact holds for a call.
    """

    restoring: bool = False
    """True if the operator lets hosts restore rows that the database has lost."""
    permitted: Callable[[object, str, str], bool] = field(default_factory=lambda: Permits().allows)
    """Whether a permit (1) is of a scheduler that sent the container (3) to the host (2)."""
    container: Callable[[str], Owner | None] = db.owner_of_container
    port: Callable[[str], Owner | None] = db.owner_of_port
    event: Callable[[int], Owner | None] = db.owner_of_event
    token: Callable[[str], Owner | None] = db.owner_of_token
    image_host: Callable[[str], str | None] = db.host_of_image
    volume_host: Callable[[str], str | None] = db.host_of_volume
    pulls_with: Callable[[str, str], bool] = db.pulls_with
    has_project: Callable[[str, str], bool] = db.has_project
    asked: Callable[[str, str, str], bool] = db.asked
    leaving: Callable[[int], str | None] = db.leaving

    def knowing(self, row: session.Row) -> "Facts":
        """Return facts that need not look for the owner of a container whose ``row`` was just read."""
        if row["host"] is None and row["capsule_uuid"] is not None:
            return self  # it is where its capsule is
        known = db.owner(row)
        return replace(self, container=lambda uuid: known if uuid == row["uuid"] else self.container(uuid))
