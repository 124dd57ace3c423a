# SPDX-License-Identifier: Apache-2.0
"""Initial schema"""

import sqlalchemy as sa
from alembic import op

from zun.db.column_types import Id, Time, text

revision = "0001"
down_revision = None

Json = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "compute_nodes",
        sa.Column("id", Id, nullable=False),
        sa.Column("uuid", text(36), nullable=False),
        sa.Column("hostname", text(255), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("topology", Json, nullable=False),
        sa.Column("cpus", sa.Integer(), nullable=False),
        sa.Column("mem_total", sa.BigInteger(), nullable=False),
        sa.Column("disk_total", sa.Integer(), nullable=False),
        sa.Column("disk_quota_supported", sa.Boolean(), nullable=False),
        sa.Column("disk_allocation_ratio", sa.Double(), nullable=False),
        sa.Column("enable_cpu_pinning", sa.Boolean(), nullable=False),
        sa.Column("availability_zone", text(255), nullable=True),
        sa.Column("labels", Json, nullable=False),
        sa.Column("runtimes", Json, nullable=False),
        sa.Column("architecture", text(32), nullable=True),
        sa.Column("os_type", text(32), nullable=True),
        sa.Column("os", text(255), nullable=True),
        sa.Column("kernel_version", text(128), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_compute_nodes")),
        sa.UniqueConstraint("hostname", name=op.f("uq_compute_nodes_hostname")),
        sa.UniqueConstraint("uuid", name=op.f("uq_compute_nodes_uuid")),
    )
    op.create_table(
        "containers",
        sa.Column("id", Id, nullable=False),
        sa.Column("uuid", text(36), nullable=False),
        sa.Column("name", text(255), nullable=False),
        sa.Column("project_id", text(255), nullable=False),
        sa.Column("user_id", text(255), nullable=True),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=True),
        sa.Column("image", text(255), nullable=False),
        sa.Column("image_driver", text(255), nullable=True),
        sa.Column("image_pull_policy", text(32), nullable=True),
        sa.Column("registry_id", text(36), nullable=True),
        sa.Column("cpu", sa.Double(), nullable=False),
        sa.Column("cpu_policy", text(32), nullable=False),
        sa.Column("memory", sa.BigInteger(), nullable=False),
        sa.Column("disk", sa.Integer(), nullable=False),
        sa.Column("placement", Json, nullable=False),
        sa.Column("request", Json, nullable=False),
        sa.Column("command", Json, nullable=True),
        sa.Column("entrypoint", Json, nullable=True),
        sa.Column("workdir", text(255), nullable=True),
        sa.Column("environment", Json, nullable=True),
        sa.Column("labels", Json, nullable=True),
        sa.Column("hostname", text(255), nullable=True),
        sa.Column("restart_policy", Json, nullable=True),
        sa.Column("interactive", sa.Boolean(), nullable=False),
        sa.Column("tty", sa.Boolean(), nullable=False),
        sa.Column("auto_remove", sa.Boolean(), nullable=False),
        sa.Column("auto_heal", sa.Boolean(), nullable=False),
        sa.Column("privileged", sa.Boolean(), nullable=False),
        sa.Column("healthcheck", Json, nullable=True),
        sa.Column("runtime", text(255), nullable=True),
        sa.Column("security_groups", Json, nullable=True),
        sa.Column("exposed_ports", Json, nullable=True),
        sa.Column("addresses", Json, nullable=True),
        sa.Column("ports", Json, nullable=True),
        sa.Column("mounts", Json, nullable=True),
        sa.Column("status", text(20), nullable=False),
        sa.Column("status_reason", sa.Text(), nullable=True),
        sa.Column("status_detail", text(255), nullable=True),
        sa.Column("task_state", text(32), nullable=True),
        sa.Column("container_id", text(64), nullable=True),
        sa.Column("started_at", Time, nullable=True),
        sa.Column("finished_at", Time, nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("host", text(255), nullable=True),
        sa.Column("cpuset", Json, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_containers")),
        sa.UniqueConstraint("uuid", name=op.f("uq_containers_uuid")),
    )
    with op.batch_alter_table("containers", schema=None) as batch_op:
        batch_op.create_index("ix_containers_host", ["host"], unique=False)
        batch_op.create_index("ix_containers_project_id_name", ["project_id", "name"], unique=False)
        batch_op.create_index("ix_containers_status", ["status"], unique=False)

    op.create_table(
        "services",
        sa.Column("id", Id, nullable=False),
        sa.Column("host", text(255), nullable=False),
        sa.Column("binary", text(255), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=True),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", text(255), nullable=True),
        sa.Column("forced_down", sa.Boolean(), nullable=False),
        sa.Column("last_seen_up", Time, nullable=True),
        sa.Column("report_count", sa.Integer(), nullable=False),
        sa.Column("availability_zone", text(255), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_services")),
        sa.UniqueConstraint("host", "binary", name=op.f("uq_services_host")),
    )
