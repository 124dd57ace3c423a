# SPDX-License-Identifier: Apache-2.0
"""Add the progress of a pull to images"""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import text

revision = "0010"
down_revision = "0008"


def upgrade() -> None:
    with op.batch_alter_table("images") as images:
        # Rows of before: a pull that is not known to have ended is under way, until the host says otherwise.
        images.add_column(sa.Column("status", text(16), nullable=False, server_default="Pulling"))
        images.add_column(sa.Column("status_detail", text(255), nullable=True))
    images = sa.table("images", sa.column("status"), sa.column("image_id"))
    op.execute(images.update().where(images.c.image_id.is_not(None)).values(status="Available"))
    with op.batch_alter_table("images") as altered:
        altered.alter_column("status", existing_type=text(16), existing_nullable=False, server_default=None)
