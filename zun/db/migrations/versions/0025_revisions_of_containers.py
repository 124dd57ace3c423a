# SPDX-License-Identifier: Apache-2.0
"""Revisions of containers: clients ask whether anything has changed"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.add_column("containers", sa.Column("revision", sa.BigInteger(), nullable=False, server_default="0"))
