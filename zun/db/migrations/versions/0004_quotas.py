# SPDX-License-Identifier: Apache-2.0
"""Quotas"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0001"
branch_labels = None
depends_on = None


def text(length):
    return sa.String(length).with_variant(mysql.VARCHAR(length, collation="utf8mb4_bin"), "mysql", "mariadb")


Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    for table, owner in (("quotas", "project_id"), ("quota_classes", "class_name")):
        op.create_table(
            table,
            sa.Column("id", Id, nullable=False),
            sa.Column(owner, text(255), nullable=False),
            sa.Column("resource", text(32), nullable=False),
            sa.Column("hard_limit", sa.Integer(), nullable=False),
            sa.Column("created_at", Time, nullable=False),
            sa.Column("updated_at", Time, nullable=True),
            sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
            sa.UniqueConstraint(owner, "resource", name=op.f(f"uq_{table}_{owner}")),
        )
    op.create_table(
        "quota_locks",
        sa.Column("project_id", text(255), nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_quota_locks")),
    )
