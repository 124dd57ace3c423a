# SPDX-License-Identifier: Apache-2.0
"""Everything that a project can create counts; volumes can be deleted. 0022 fills the numbers of containers."""

import sqlalchemy as sa
from alembic import op
from oslo_utils import uuidutils

from zun.db.column_types import text

revision = "0015"
down_revision = "0014"

INDEX = "ix_containers_project_id_id"
COUNTED = ["project_id", "id", "kind", "cpu", "memory", "disk", "volume_disk", "withheld_cpu", "port_count"]
ADDED = ("ports", "images", "groups", "networks", "volumes", "registries", "terminals")


def upgrade() -> None:
    with op.batch_alter_table("containers") as containers:
        for name in ("port_count", "withheld_cpu"):
            containers.add_column(sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    op.drop_index(INDEX, "containers")
    op.create_index(INDEX, "containers", COUNTED)
    with op.batch_alter_table("quota_locks") as locks:
        for name in ADDED:
            locks.add_column(sa.Column(name, sa.BigInteger(), nullable=True))
    with op.batch_alter_table("volumes") as volumes:
        volumes.add_column(sa.Column("uuid", text(36), nullable=True))
        volumes.add_column(sa.Column("deleting", sa.Boolean(), nullable=False, server_default=sa.false()))
    _name_volumes(op.get_bind())
    with op.batch_alter_table("volumes") as volumes:
        volumes.alter_column("uuid", existing_type=text(36), nullable=False)
        volumes.create_unique_constraint("uq_volumes_uuid", ["uuid"])
        volumes.create_index("ix_volumes_host", ["host"])
        volumes.alter_column("deleting", existing_type=sa.Boolean(), existing_nullable=False, server_default=None)


def _name_volumes(connection: sa.Connection) -> None:
    volumes = sa.table("volumes", sa.column("id"), sa.column("uuid"))
    for number in list(connection.execute(sa.select(volumes.c.id)).scalars()):
        connection.execute(
            volumes.update().where(volumes.c.id == number).values(uuid=uuidutils.generate_uuid())
        )
