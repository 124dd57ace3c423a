# SPDX-License-Identifier: Apache-2.0
"""Networks, and the places of containers in them"""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import Id, Time, text

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "networks",
        sa.Column("id", Id, nullable=False),
        sa.Column("uuid", text(36), nullable=False),
        sa.Column("neutron_net_id", text(255), nullable=True),
        sa.Column("project_id", text(255), nullable=False),
        sa.Column("user_id", text(255), nullable=True),
        sa.Column("name", text(255), nullable=True),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.Column("subnets", sa.JSON(), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_networks"),
        sa.UniqueConstraint("uuid", name="uq_networks_uuid"),
    )
    op.create_index("ix_networks_project_id", "networks", ["project_id"])
    op.create_table(
        "network_ports",
        sa.Column("id", Id, nullable=False),
        sa.Column("uuid", text(36), nullable=False),
        sa.Column("network_uuid", text(36), nullable=False),
        sa.Column("container_uuid", text(36), nullable=False),
        sa.Column("ipv4", text(15), nullable=True),
        sa.Column("ipv6", text(45), nullable=True),
        sa.Column("leaving", sa.Boolean(), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.ForeignKeyConstraint(["network_uuid"], ["networks.uuid"], name="fk_network_ports_network_uuid"),
        sa.ForeignKeyConstraint(
            ["container_uuid"], ["containers.uuid"], name="fk_network_ports_container_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_network_ports"),
        sa.UniqueConstraint("uuid", name="uq_network_ports_uuid"),
        sa.UniqueConstraint("container_uuid", "network_uuid", name="uq_network_ports_container_uuid"),
        sa.UniqueConstraint("ipv4", "network_uuid", name="uq_network_ports_ipv4"),
        sa.UniqueConstraint("ipv6", "network_uuid", name="uq_network_ports_ipv6"),
    )
    op.create_index("ix_network_ports_network_uuid", "network_ports", ["network_uuid"])
