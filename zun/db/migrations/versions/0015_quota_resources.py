# SPDX-License-Identifier: Apache-2.0
"""Everything that a project can create counts; volumes can be deleted"""

import collections

import sqlalchemy as sa
from alembic import op
from oslo_utils import uuidutils
from sqlalchemy.dialects import mysql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

INDEX = "ix_containers_project_id_id"
COUNTED = ["project_id", "id", "kind", "cpu", "memory", "disk", "volume_disk", "withheld_cpu", "port_count"]
ADDED = ("ports", "images", "groups", "networks", "volumes", "registries", "terminals")
AT_ONCE = 1000  # rows of one statement; one by one, 100,000 containers took a minute and a half
CEILINGS = ("containers", "memory", "cpu", "disk")


def text(length):
    return sa.String(length).with_variant(mysql.VARCHAR(length, collation="utf8mb4_bin"), "mysql", "mariadb")


def upgrade() -> None:
    with op.batch_alter_table("containers") as containers:
        for name in ("port_count", "withheld_cpu"):
            containers.add_column(sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    op.drop_index(INDEX, "containers")
    op.create_index(INDEX, "containers", COUNTED)
    with op.batch_alter_table("quota_locks") as locks:
        for name in ADDED:
            locks.add_column(sa.Column(name, sa.BigInteger(), nullable=True))
    with op.batch_alter_table("volumes") as volumes:
        volumes.add_column(sa.Column("uuid", text(36), nullable=True))
        volumes.add_column(sa.Column("deleting", sa.Boolean(), nullable=False, server_default=sa.false()))
    connection = op.get_bind()
    _name_volumes(connection)
    _count(connection)
    with op.batch_alter_table("volumes") as volumes:
        volumes.alter_column("uuid", existing_type=text(36), nullable=False)
        volumes.create_unique_constraint("uq_volumes_uuid", ["uuid"])
        volumes.create_index("ix_volumes_host", ["host"])
        volumes.alter_column("deleting", existing_type=sa.Boolean(), existing_nullable=False, server_default=None)


def _name_volumes(connection: sa.Connection) -> None:
    volumes = sa.table("volumes", sa.column("id"), sa.column("uuid"))
    for number in list(connection.execute(sa.select(volumes.c.id)).scalars()):
        connection.execute(
            volumes.update().where(volumes.c.id == number).values(uuid=uuidutils.generate_uuid())
        )


def _count(connection: sa.Connection) -> None:
    """Count what containers expose and keep idle, and have every ceiling counted anew: capsules count from now on."""
    json = ("exposed_ports", "cpuset")
    columns = (*(sa.column(name, sa.JSON) for name in json), *map(sa.column, ("id", "port_count", "withheld_cpu")))
    containers = sa.table("containers", sa.column("capsule_uuid"), *columns)
    filled = sa.or_(*(containers.c[name].is_not(None) for name in json))
    found = sa.select(containers.c.id, *(containers.c[name] for name in json))
    numbers: dict[tuple[int, int], list[int]] = collections.defaultdict(list)
    for number, ports, cpuset in connection.execute(found.where(containers.c.capsule_uuid.is_(None), filled)):
        numbers[len(ports or ()), _withheld(cpuset)].append(number)
    numbers.pop((0, 0), None)
    for (port_count, withheld), ids in numbers.items():
        for start in range(0, len(ids), AT_ONCE):
            chosen = containers.c.id.in_(ids[start : start + AT_ONCE])
            values = {"port_count": port_count, "withheld_cpu": withheld}
            connection.execute(containers.update().where(chosen).values(**values))
    locks = sa.table("quota_locks", *map(sa.column, CEILINGS))
    connection.execute(locks.update().values(dict.fromkeys(CEILINGS)))


def _withheld(cpuset: object) -> int:
    """CPUs that a claim keeps idle; 0 for a record that somebody wrote by hand."""
    try:
        return sum(_cpus(share.get("withheld") or "") for share in cpuset["cells"])  # type: ignore[index]
    except (AttributeError, LookupError, TypeError, ValueError):
        return 0


def _cpus(listed: str) -> int:
    """Return the number of CPUs in a kernel list: 5 for ``0-3,8``."""
    ranges = [each.partition("-") for each in listed.split(",") if each]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)
