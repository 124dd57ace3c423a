# SPDX-License-Identifier: Apache-2.0
"""Capabilities that containers ask for"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.add_column("containers", sa.Column("capabilities", sa.JSON()))
