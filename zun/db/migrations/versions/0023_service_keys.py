# SPDX-License-Identifier: Apache-2.0
"""Keys that services share through the database"""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import text

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.create_table(
        "service_keys",
        sa.Column("name", text(32), nullable=False),
        sa.Column("value", text(64), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_service_keys"),
    )
