# SPDX-License-Identifier: Apache-2.0
"""Devices count for quotas, by names of any length that the API takes"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def text(length):
    return sa.String(length).with_variant(mysql.VARCHAR(length, collation="utf8mb4_bin"), "mysql", "mariadb")


def upgrade() -> None:
    with op.batch_alter_table("containers") as containers:
        containers.add_column(sa.Column("device_count", sa.Integer(), nullable=False, server_default="0"))
    op.create_index("ix_containers_project_id_device_count", "containers", ["project_id", "device_count"])
    for table in ("quotas", "quota_classes"):
        with op.batch_alter_table(table) as limits:
            limits.alter_column("resource", existing_type=text(32), type_=text(271), existing_nullable=False)
    _count(op.get_bind())


def _count(connection: sa.Connection) -> None:
    placement = sa.column("placement", sa.JSON)
    containers = sa.table("containers", *map(sa.column, ("id", "capsule_uuid", "device_count")), placement)
    asked = sa.select(containers.c.id, placement).where(containers.c.capsule_uuid.is_(None))
    for number, record in list(connection.execute(asked)):
        if count := _devices(record):
            connection.execute(containers.update().where(containers.c.id == number).values(device_count=count))


def _devices(placement: object) -> int:
    """Return the number of devices of a request; 0 for a record that somebody wrote by hand."""
    try:
        return sum(each["count"] for each in placement["devices"])  # type: ignore[index]
    except (LookupError, TypeError):
        return 0
