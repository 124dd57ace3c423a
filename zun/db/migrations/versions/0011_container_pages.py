# SPDX-License-Identifier: Apache-2.0
"""Indexes for a page of a project's containers and for its quota"""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    summed = ["kind", "cpu", "memory", "disk", "volume_disk"]
    op.create_index("ix_containers_project_id_id", "containers", ["project_id", "id", *summed])
    op.create_index("ix_containers_project_id_created_at", "containers", ["project_id", "created_at"])
