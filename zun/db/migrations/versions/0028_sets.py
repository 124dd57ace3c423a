# SPDX-License-Identifier: Apache-2.0
"""Container sets"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from zun.db.column_types import Id, Time, text

revision = "0028"
down_revision = "0027"

Json = sa.JSON(none_as_null=True)
Prose = sa.Text().with_variant(mysql.MEDIUMTEXT(charset="utf8mb4"), "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "container_sets",
        sa.Column("id", Id, nullable=False),
        sa.Column("uuid", text(36), nullable=False),
        sa.Column("name", text(255), nullable=False),
        sa.Column("project_id", text(255), nullable=False),
        sa.Column("user_id", text(255), nullable=True),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("min_count", sa.Integer(), nullable=False),
        sa.Column("rules", Json, nullable=False),
        sa.Column("status_reason", Prose, nullable=True),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=True),
        sa.Column("template", Json, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_container_sets")),
        sa.UniqueConstraint("uuid", name=op.f("uq_container_sets_uuid")),
    )
    op.create_index("ix_container_sets_project_id", "container_sets", ["project_id", "name"], unique=False)
    op.add_column("containers", sa.Column("set_uuid", text(36), nullable=True))
    op.add_column("containers", sa.Column("set_index", sa.Integer(), nullable=True))
    op.create_index("ix_containers_set_uuid", "containers", ["set_uuid", "set_index"], unique=False)
