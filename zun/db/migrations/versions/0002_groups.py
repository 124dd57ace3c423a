# SPDX-License-Identifier: Apache-2.0
"""Host aggregates and container groups"""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import Id, Time, text

revision = "0002"
down_revision = "0001"

Json = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "container_groups",
        sa.Column("id", Id, nullable=False),
        sa.Column("uuid", text(36), nullable=False),
        sa.Column("name", text(255), nullable=False),
        sa.Column("project_id", text(255), nullable=False),
        sa.Column("user_id", text(255), nullable=True),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=True),
        sa.Column("policy", text(32), nullable=False),
        sa.Column("rules", Json, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_container_groups")),
        sa.UniqueConstraint("uuid", name=op.f("uq_container_groups_uuid")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_container_groups_project_id")),
    )
    op.create_table(
        "aggregates",
        sa.Column("id", Id, nullable=False),
        sa.Column("uuid", text(36), nullable=False),
        sa.Column("name", text(255), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=True),
        sa.Column("metadata", Json, nullable=False),
        sa.Column("hosts", Json, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_aggregates")),
        sa.UniqueConstraint("uuid", name=op.f("uq_aggregates_uuid")),
        sa.UniqueConstraint("name", name=op.f("uq_aggregates_name")),
    )
    op.add_column("containers", sa.Column("group_uuid", text(36), nullable=True))
    op.create_index("ix_containers_group_uuid", "containers", ["group_uuid"], unique=False)
