# SPDX-License-Identifier: Apache-2.0
"""Drains of hosts, and layers of containers that move to another host"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from zun.db.column_types import text

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.add_column("services", sa.Column("drain", sa.JSON()))
    op.create_table(
        "layers",
        sa.Column("container_uuid", text(36), nullable=False),
        sa.Column("data", sa.Text().with_variant(mysql.LONGTEXT(charset="ascii"), "mysql", "mariadb"), nullable=False),
        sa.ForeignKeyConstraint(
            ["container_uuid"], ["containers.uuid"], name="fk_layers_container_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("container_uuid", name="pk_layers"),
    )
