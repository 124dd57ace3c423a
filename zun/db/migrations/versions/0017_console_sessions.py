# SPDX-License-Identifier: Apache-2.0
"""Who a token for a terminal was issued to, and when it was used"""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import Time, text

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("console_tokens", sa.Column("user_id", text(255)))
    op.add_column("console_tokens", sa.Column("used_at", Time))
