# SPDX-License-Identifier: Apache-2.0
"""Create capsules as the API does, and wait until they have settled."""

from oslo_utils import uuidutils

from zun.common.states import Kind
from zun.db import capsules as db_capsules
from zun.db import containers as db
from zun.objects import Container
from zun.tests.fixtures import wait_for


def member(cpu, memory=64, kind=Kind.MEMBER, command=("sleep", "1000"), policy="dedicated", **fields):
    return {
        "kind": kind,
        "name": f"{kind}-{uuidutils.generate_uuid()}",
        "image": "zun-demo",
        "cpu": cpu,
        "cpu_policy": policy,
        "memory": memory,
        "command": list(command),
        "placement": {},
        "request": {"run": True},
        "status": "Creating",
        **fields,
    }


def submit(cloud, context, *members, policy="dedicated", **fields):
    ours, inits = ([each for each in members if each["kind"] == kind] for kind in (Kind.MEMBER, Kind.INIT))
    values = {
        "uuid": uuidutils.generate_uuid(),
        "name": "pod",
        "project_id": context.project_id,
        "user_id": context.user_id,
        "image": "pause",
        "cpu": max(sum(each["cpu"] for each in ours), *(each["cpu"] for each in inits), 0),
        "memory": max(sum(each["memory"] for each in ours), *(each["memory"] for each in inits), 0),
        "cpu_policy": policy,
        "placement": {},
        "request": {"run": True},
        "restart_policy": {"Name": "always", "MaximumRetryCount": "0"},
        "status": "Creating",
        **fields,
    }
    row = db_capsules.insert(values, [*inits, *ours])
    cloud.scheduler_api.create(context, Container.from_row(context, row))
    return row["uuid"]


def settled(cloud, uuid, *statuses):
    """Wait until the capsule's status is one of ``statuses``; return its row and its members."""
    row = wait_for(lambda: (found := db.get(uuid))["status"] in statuses and not found["task_state"] and found)
    return row, db_capsules.members([uuid])[uuid]
