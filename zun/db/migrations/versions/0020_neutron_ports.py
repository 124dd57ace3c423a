# SPDX-License-Identifier: Apache-2.0
"""Ports of Neutron"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("network_ports", sa.Column("fixed_ips", sa.JSON()))
    op.add_column("network_ports", sa.Column("preserve", sa.Boolean(), nullable=False, server_default=sa.false()))
