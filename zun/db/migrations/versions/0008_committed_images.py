# SPDX-License-Identifier: Apache-2.0
"""Images that were made of containers"""

import hashlib

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import text

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    with op.batch_alter_table("images") as images:
        images.add_column(sa.Column("pulled", text(64), nullable=True))
        images.add_column(sa.Column("local_name", text(64), nullable=False, server_default=""))
        images.drop_constraint(op.f("uq_images_host"), type_="unique")
    _fill()
    with op.batch_alter_table("images") as images:
        images.create_unique_constraint(op.f("uq_images_pulled"), ["pulled"])


def _fill() -> None:
    names = ("id", "host", "repo", "tag", "pulled")
    table = sa.table("images", *(sa.column(name) for name in names))
    connection = op.get_bind()
    for row in connection.execute(sa.select(table)).all():
        digest = hashlib.sha256("\0".join((row.host, row.repo, row.tag)).encode()).hexdigest()
        connection.execute(table.update().where(table.c.id == row.id).values(pulled=digest))
