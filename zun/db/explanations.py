# SPDX-License-Identifier: Apache-2.0
"""The scheduler's explanation why a container found no host. A container has one record, removed with it."""

from collections.abc import Collection, Mapping
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


def put_in(connection: sa.Connection, uuids: Collection[str], record: Mapping[str, Any]) -> None:
    """Replace the explanation of each container by ``record``, a JSON document, in the caller's transaction."""
    remove_in(connection, uuids)
    values = {"created_at": timeutils.utcnow(), "record": dict(record)}
    connection.execute(table.insert(), [{"container_uuid": uuid, **values} for uuid in uuids])


def remove_in(connection: sa.Connection, uuids: Collection[str]) -> None:
    """Remove the explanations of containers, in the transaction that removes the containers."""
    connection.execute(table.delete().where(table.c.container_uuid.in_(uuids)))
