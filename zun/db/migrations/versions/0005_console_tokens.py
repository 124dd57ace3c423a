# SPDX-License-Identifier: Apache-2.0
"""Tokens of terminals"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def text(length):
    return sa.String(length).with_variant(mysql.VARCHAR(length, collation="utf8mb4_bin"), "mysql", "mariadb")


Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "console_tokens",
        sa.Column("token_hash", text(64), nullable=False),
        sa.Column("container_uuid", text(36), nullable=False),
        sa.Column("exec_id", text(64), nullable=True),
        sa.Column("expires_at", Time, nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_console_tokens"),
    )
    op.create_index("ix_console_tokens_expires_at", "console_tokens", ["expires_at"])
