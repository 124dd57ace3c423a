# SPDX-License-Identifier: Apache-2.0
"""Reasons and tracebacks in any letters"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    if op.get_bind().dialect.name in ("mysql", "mariadb"):
        prose = mysql.MEDIUMTEXT(charset="utf8mb4")
        for table, column in (("containers", "status_reason"), ("container_action_events", "traceback")):
            op.alter_column(table, column, existing_type=sa.Text(), type_=prose, existing_nullable=True)
