# SPDX-License-Identifier: Apache-2.0
"""Rows as short as the tables allow, and threads that start together."""

import contextlib
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa
from oslo_utils import uuidutils

from zun.db import compute_nodes, containers, explanations, groups, models, session, sets, volumes

_numbers = itertools.count(1)

NODE = {
    "topology": {"cells": []},
    "cpus": 8,
    "mem_total": 4096,
    "disk_total": 100,
    "disk_quota_supported": False,
    "disk_allocation_ratio": 1.0,
    "enable_cpu_pinning": True,
    "availability_zone": "nova",
    "labels": {},
    "runtimes": ["runc"],
}
CPUSET = {"cpu_policy": "dedicated", "generation": 1, "cells": [], "cpuset_cpus": "0-1", "cpuset_mems": "0"}


def values(**fields):
    """Return the values that a new container's row needs."""
    return {
        "uuid": uuidutils.generate_uuid(),
        "name": f"container-{next(_numbers)}",
        "project_id": "demo",
        "image": "zun-demo",
        "cpu": 1.0,
        "cpu_policy": "shared",
        "memory": 64,
        "placement": {},
        "request": {},
        "status": "Creating",
        **fields,
    }


def container(**fields):
    """A container in the database; gives its row."""
    return containers.insert(values(**fields))


SET_WHO = {"request_id": "req-1", "user_id": "alice", "project_id": "demo", "client_address": None}


def a_set(*statuses, project_id="demo", name=None, count=None, min_count=None, host="host-1", **fields):
    """A set whose members have these statuses, on ``host`` unless they are Creating; gives its row and theirs."""
    name = name or f"set-{next(_numbers)}"
    uuid = uuidutils.generate_uuid()
    template = {"nets": None, "fields": {**values(project_id=project_id), "exposed_ports": None, "mounts": None}}
    template["fields"] |= {"security_groups": None}
    for key in ("uuid", "name", "project_id"):
        del template["fields"][key]
    row = {"uuid": uuid, "project_id": project_id, "user_id": "alice", "name": name, "rules": {}, "template": template}
    row |= {"count": count or len(statuses), "min_count": min_count or count or len(statuses)}
    members = [
        values(
            name=f"{name}-{number}",
            project_id=project_id,
            status=status,
            host=None if status == "Creating" else host,
            set_uuid=uuid,
            set_index=number,
            **fields,
        )
        for number, status in enumerate(statuses)
    ]
    made = sets.insert(row, members, {**SET_WHO, "project_id": project_id})
    return made, sets.members(uuid)


def held_set(project_id, name):
    """A set of which one member runs, one is stopped and one is lost; gives its uuid."""
    return a_set("Running", "Stopped", project_id=project_id, name=name, count=3)[0]["uuid"]


def page(context, names=(), **wanted):
    """The rows of a page of containers, whole unless these columns are named."""
    pieces = list(containers.page(context, names or models.containers.c.keys(), **wanted))
    return [dict(zip(found, row, strict=True)) for found in pieces for row in zip(*found.values(), strict=True)]


def node(hostname, **fields):
    """A compute node in the database; gives its row."""
    return compute_nodes.put(hostname, {**NODE, **fields})


def explained(uuid, record):
    """Let there be an explanation of the container."""
    with session.writer() as connection:
        explanations.put_in(connection, [uuid], record)


def group(policy="anti-affinity", **fields):
    """A container group in the database; gives its row."""
    values = {"name": f"group-{next(_numbers)}", "project_id": "demo", "policy": policy, "rules": {}, **fields}
    return groups.insert(values)


def held_volume(project_id, name, hostname="host-1"):
    """A named volume of the project on a host; gives its uuid."""
    with session.writer() as connection:
        volumes.hold(connection, project_id, [name], hostname)
        of_name = (models.volumes.c.project_id == project_id, models.volumes.c.name == name)
        return connection.execute(sa.select(models.volumes.c.uuid).where(*of_name)).scalar_one()


def clear():
    """Remove every row."""
    with session.writer() as connection:
        for table in reversed(models.metadata.sorted_tables):
            connection.execute(table.delete())


def together(count, work):
    """Run ``work(number)`` in ``count`` threads that start at once; their answers, or exceptions, in order."""
    start = threading.Barrier(count)

    def run(number):
        start.wait(60)
        try:
            return work(number)
        except Exception as exc:
            return exc

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@contextlib.contextmanager
def written():
    """Every statement that the writers send meanwhile."""
    statements, engine = [], session.engine()

    def note(connection, cursor, statement, parameters, context, many):
        statements.append(statement)

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)
