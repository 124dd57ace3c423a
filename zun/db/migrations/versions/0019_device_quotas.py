# SPDX-License-Identifier: Apache-2.0
"""Devices count for quotas, by names of any length that the API takes. 0022 fills the number of each container."""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import text

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    with op.batch_alter_table("containers") as containers:
        containers.add_column(sa.Column("device_count", sa.Integer(), nullable=False, server_default="0"))
    op.create_index("ix_containers_project_id_device_count", "containers", ["project_id", "device_count"])
    for table in ("quotas", "quota_classes"):
        with op.batch_alter_table(table) as limits:
            limits.alter_column("resource", existing_type=text(32), type_=text(271), existing_nullable=False)
