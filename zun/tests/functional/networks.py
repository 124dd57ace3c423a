# SPDX-License-Identifier: Apache-2.0
"""Rows of networks, for tests of hosts."""

from zun.common.subnets import Pool
from zun.db import networks

POOL = Pool("10.224.0.0/12", 24)


def network(name="backend", *subnets, **fields):
    values = {"name": name, "project_id": "demo", "user_id": "alice", "shared": False, **fields}
    return networks.insert(values, subnets, POOL)["uuid"]
