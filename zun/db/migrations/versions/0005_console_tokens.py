# SPDX-License-Identifier: Apache-2.0
"""Tokens of terminals"""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import Time, text

revision = "0005"
down_revision = "0004"


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
