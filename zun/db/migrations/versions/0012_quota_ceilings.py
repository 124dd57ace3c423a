# SPDX-License-Identifier: Apache-2.0
"""Add the largest use of a project"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    with op.batch_alter_table("quota_locks") as locks:
        for name in ("containers", "memory", "disk"):
            locks.add_column(sa.Column(name, sa.BigInteger(), nullable=True))
        locks.add_column(sa.Column("cpu", sa.Double(), nullable=True))
