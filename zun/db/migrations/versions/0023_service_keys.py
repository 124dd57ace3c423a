# SPDX-License-Identifier: Apache-2.0
"""Keys that services share through the database"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def text(length):
    return sa.String(length).with_variant(mysql.VARCHAR(length, collation="utf8mb4_bin"), "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "service_keys",
        sa.Column("name", text(32), nullable=False),
        sa.Column("value", text(64), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_service_keys"),
    )
