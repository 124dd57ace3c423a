# SPDX-License-Identifier: Apache-2.0
"""Quotas, container actions, images and registries"""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import Id, Time, text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    _quotas()
    _container_actions()
    _images()


def _quotas() -> None:
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


def _container_actions() -> None:
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


def _images() -> None:
    op.create_table(
        "registries",
        sa.Column("id", Id, nullable=False),
        sa.Column("uuid", text(36), nullable=False),
        sa.Column("project_id", text(255), nullable=False),
        sa.Column("user_id", text(255), nullable=True),
        sa.Column("name", text(255), nullable=True),
        sa.Column("domain", text(255), nullable=False),
        sa.Column("username", text(255), nullable=True),
        sa.Column("password", sa.Text(), nullable=True),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_registries")),
        sa.UniqueConstraint("uuid", name=op.f("uq_registries_uuid")),
    )
    op.create_index("ix_registries_project_id", "registries", ["project_id"])
    op.create_table(
        "images",
        sa.Column("id", Id, nullable=False),
        sa.Column("uuid", text(36), nullable=False),
        sa.Column("project_id", text(255), nullable=False),
        sa.Column("host", text(255), nullable=False),
        sa.Column("repo", text(255), nullable=False),
        sa.Column("tag", text(255), nullable=False),
        sa.Column("image_id", text(255), nullable=True),
        sa.Column("size", text(32), nullable=True),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
        sa.UniqueConstraint("host", "repo", "tag", name=op.f("uq_images_host")),
        sa.UniqueConstraint("uuid", name=op.f("uq_images_uuid")),
    )
    op.create_index("ix_images_project_id", "images", ["project_id"])
