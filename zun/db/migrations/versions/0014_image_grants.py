# SPDX-License-Identifier: Apache-2.0
"""Which projects may use what a host pulled with credentials"""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import Id, Time, text

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "image_grants",
        sa.Column("id", Id, nullable=False),
        sa.Column("host", text(255), nullable=False),
        sa.Column("image", text(450), nullable=False),
        sa.Column("project_id", text(255), nullable=False),
        sa.Column("updated_at", Time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_image_grants"),
    )
    op.create_index("ix_image_grants_image", "image_grants", ["image", "host"])
    op.create_index("ix_image_grants_host", "image_grants", ["host"])
