# SPDX-License-Identifier: Apache-2.0
"""From where an action was asked for"""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import text

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("container_actions", sa.Column("client_address", text(64), nullable=True))
