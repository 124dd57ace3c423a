# SPDX-License-Identifier: Apache-2.0
"""Explanations of containers that found no host"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "explanations",
        sa.Column(
            "container_uuid",
            sa.String(36).with_variant(mysql.VARCHAR(36, collation="utf8mb4_bin"), "mysql", "mariadb"),
            nullable=False,
        ),
        sa.Column(
            "created_at", sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb"), nullable=False
        ),
        sa.Column("record", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("container_uuid", name="pk_explanations"),
    )
