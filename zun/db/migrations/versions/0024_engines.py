# SPDX-License-Identifier: Apache-2.0
"""Container engines of hosts"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.add_column("compute_nodes", sa.Column("engine", sa.JSON()))
