# SPDX-License-Identifier: Apache-2.0
"""Container actions"""

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
Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "container_actions",
        sa.Column("id", Id, nullable=False),
        sa.Column("container_uuid", text(36), nullable=False),
        sa.Column("action", text(255), nullable=False),
        sa.Column("request_id", text(255), nullable=False),
        sa.Column("user_id", text(255), nullable=True),
        sa.Column("project_id", text(255), nullable=False),
        sa.Column("start_time", Time, nullable=False),
        sa.Column("finish_time", Time, nullable=True),
        sa.Column("message", text(255), nullable=True),
        sa.ForeignKeyConstraint(
            ["container_uuid"],
            ["containers.uuid"],
            name=op.f("fk_container_actions_container_uuid"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_container_actions")),
    )
    op.create_index("ix_container_actions_container_uuid", "container_actions", ["container_uuid"])
    op.create_table(
        "container_action_events",
        sa.Column("id", Id, nullable=False),
        sa.Column("action_id", Id, nullable=False),
        sa.Column("event", text(255), nullable=False),
        sa.Column("start_time", Time, nullable=False),
        sa.Column("finish_time", Time, nullable=True),
        sa.Column("result", text(32), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["action_id"],
            ["container_actions.id"],
            name=op.f("fk_container_action_events_action_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_container_action_events")),
    )
    op.create_index("ix_container_action_events_action_id", "container_action_events", ["action_id"])
