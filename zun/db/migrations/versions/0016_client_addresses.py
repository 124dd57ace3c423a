# SPDX-License-Identifier: Apache-2.0
"""From where an action was asked for"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def text(length):
    return sa.String(length).with_variant(mysql.VARCHAR(length, collation="utf8mb4_bin"), "mysql", "mariadb")


def upgrade() -> None:
    op.add_column("container_actions", sa.Column("client_address", text(64), nullable=True))
