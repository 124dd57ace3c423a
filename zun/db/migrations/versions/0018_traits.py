# SPDX-License-Identifier: Apache-2.0
"""Traits of hosts"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("compute_nodes", sa.Column("traits", sa.JSON()))
    op.add_column("compute_nodes", sa.Column("added_traits", sa.JSON()))
