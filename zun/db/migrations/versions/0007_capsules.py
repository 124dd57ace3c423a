# SPDX-License-Identifier: Apache-2.0
"""Volumes of projects, the disk that mounts take, and capsules"""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import Id, Time, text

revision = "0007"
down_revision = "0006"

Json = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "volumes",
        sa.Column("id", Id, nullable=False),
        sa.Column("project_id", text(255), nullable=False),
        sa.Column("name", text(255), nullable=False),
        sa.Column("host", text(255), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_volumes"),
        sa.UniqueConstraint("project_id", "name", name="uq_volumes_project_id"),
    )
    op.add_column("containers", sa.Column("volume_disk", sa.Integer, nullable=False, server_default="0"))
    op.add_column("containers", sa.Column("kind", text(16), nullable=False, server_default="container"))
    op.add_column("containers", sa.Column("capsule_uuid", text(36), nullable=True))
    op.add_column("containers", sa.Column("annotations", Json, nullable=True))
    op.create_index("ix_containers_capsule_uuid", "containers", ["capsule_uuid"])
