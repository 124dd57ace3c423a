# SPDX-License-Identifier: Apache-2.0
"""Who a token for a terminal was issued to, and when it was used"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

Text = sa.String(255).with_variant(mysql.VARCHAR(255, collation="utf8mb4_bin"), "mysql", "mariadb")
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    op.add_column("console_tokens", sa.Column("user_id", Text))
    op.add_column("console_tokens", sa.Column("used_at", Time))
