# SPDX-License-Identifier: Apache-2.0
"""Arguments of actions: what is wanted is written before any message"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.add_column("container_actions", sa.Column("arguments", sa.JSON()))
