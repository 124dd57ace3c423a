# SPDX-License-Identifier: Apache-2.0
"""Images and registries"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def text(length):
    return sa.String(length).with_variant(mysql.VARCHAR(length, collation="utf8mb4_bin"), "mysql", "mariadb")


Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
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
