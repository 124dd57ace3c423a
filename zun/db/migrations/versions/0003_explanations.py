# SPDX-License-Identifier: Apache-2.0
"""Explanations of containers that found no host"""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import Time, text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "explanations",
        sa.Column("container_uuid", text(36), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("record", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("container_uuid", name="pk_explanations"),
    )
