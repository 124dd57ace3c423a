# SPDX-License-Identifier: Apache-2.0
"""The scheduler's explanation why a container found no host. A container has one record, removed with it."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_utils import timeutils

from zun.common import exceptions
from zun.db import models, session

table = models.explanations


def get(uuid: str) -> session.Row:
    """Return ``record`` and ``created_at`` of the container's explanation. Raises ExplanationNotFound."""
    statement = sa.select(table).where(table.c.container_uuid == uuid)
    return session.found(statement, exceptions.ExplanationNotFound(container=uuid))


def put_in(connection: sa.Connection, uuid: str, record: Mapping[str, Any]) -> None:
    """Replace the container's explanation by ``record``, a JSON document, in the caller's transaction."""
    remove_in(connection, uuid)
    values = {"container_uuid": uuid, "created_at": timeutils.utcnow(), "record": dict(record)}
    connection.execute(table.insert().values(values))


def remove_in(connection: sa.Connection, uuid: str) -> None:
    """Remove the container's explanation, in the transaction that removes the container."""
    connection.execute(table.delete().where(table.c.container_uuid == uuid))
