# SPDX-License-Identifier: Apache-2.0
"""Why a container found no host, as the scheduler saw it. One record a container, which goes with it."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_utils import timeutils

from zun.common import exceptions
from zun.db import models, session

table = models.explanations


def get(uuid: str) -> session.Row:
    """``record`` and ``created_at``. Raises ExplanationNotFound."""
    statement = sa.select(table).where(table.c.container_uuid == uuid)
    return session.found(statement, exceptions.ExplanationNotFound(container=uuid))


def put_in(connection: sa.Connection, uuid: str, record: Mapping[str, Any]) -> None:
    """Keep ``record`` (JSON-able) for the container, in place of an older one, in the transaction that ends it."""
    remove_in(connection, uuid)
    values = {"container_uuid": uuid, "created_at": timeutils.utcnow(), "record": dict(record)}
    connection.execute(table.insert().values(values))


def remove_in(connection: sa.Connection, uuid: str) -> None:
    """Remove it, as part of the transaction that removes the container."""
    connection.execute(table.delete().where(table.c.container_uuid == uuid))
