# SPDX-License-Identifier: Apache-2.0
"""Numbers of ports, idle CPUs and devices of the containers that were made before 0015 and 0019"""

import collections
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

from zun.db import session

revision = "0022"
down_revision = "0021"

AT_ONCE = 1000  # rows of one transaction
CEILINGS = ("containers", "memory", "cpu", "disk")
NUMBERS = ("port_count", "withheld_cpu", "device_count")
RECORDS = ("exposed_ports", "cpuset", "placement")

_columns = (*(sa.column(name, sa.JSON) for name in RECORDS), *map(sa.column, ("id", "capsule_uuid", *NUMBERS)))
containers = sa.table("containers", *_columns)


def fill() -> None:
    """Count what containers expose, keep idle and have of devices. A second call goes on where the first one ended."""
    last: int | None = 0
    while last is not None:
        with session.writer() as connection:
            last = _fill_after(connection, last)


def upgrade() -> None:
    """Have every ceiling counted anew, because capsules count since 0015."""
    locks = sa.table("quota_locks", *map(sa.column, CEILINGS))
    op.get_bind().execute(locks.update().values(dict.fromkeys(CEILINGS)))


def _fill_after(connection: sa.Connection, last: int) -> int | None:
    """Count the next containers that have no numbers yet. Return the last of them, or None at the end."""
    uncounted = [containers.c[name] == 0 for name in NUMBERS]
    page = sa.select(containers.c.id, *(containers.c[name] for name in RECORDS)).with_for_update()
    page = page.where(containers.c.id > last, containers.c.capsule_uuid.is_(None), *uncounted)
    found = connection.execute(page.order_by(containers.c.id).limit(AT_ONCE)).mappings().all()
    alike: dict[tuple[int, ...], list[int]] = collections.defaultdict(list)
    for row in found:
        alike[numbers(row)].append(row["id"])
    alike.pop((0, 0, 0), None)
    for counted, ids in alike.items():
        values = dict(zip(NUMBERS, counted, strict=True))
        connection.execute(containers.update().where(containers.c.id.in_(ids)).values(**values))
    return found[-1]["id"] if found else None


def numbers(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return len(row["exposed_ports"] or ()), _withheld(row["cpuset"]), _devices(row["placement"])


def _withheld(cpuset: object) -> int:
    """Return the number of CPUs that a claim keeps idle; 0 for a record that somebody wrote by hand."""
    try:
        return sum(_cpus(share.get("withheld") or "") for share in cpuset["cells"])  # type: ignore[index]
    except (AttributeError, LookupError, TypeError, ValueError):
        return 0


def _cpus(listed: str) -> int:
    """Return the number of CPUs in a kernel list: 5 for ``0-3,8``."""
    ranges = [each.partition("-") for each in listed.split(",") if each]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)


def _devices(placement: object) -> int:
    """Return the number of devices of a request; 0 for a record that somebody wrote by hand."""
    try:
        return sum(each["count"] for each in placement["devices"])  # type: ignore[index]
    except (LookupError, TypeError):
        return 0
