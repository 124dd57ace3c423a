# SPDX-License-Identifier: Apache-2.0
"""Two API processes on one MariaDB: together they let exactly as much through as the limit says."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from zun.tests.integration.programs import Api, free_port

pytestmark = pytest.mark.distributed

REQUESTS, LIMIT = 200, 50


def test_two_api_processes(program, rabbit_url, database_url):
    name, ports = f"test-{uuid.uuid4().hex[:8]}", (free_port(), free_port())
    # Nobody schedules: what is accepted stays as it is.
    common = {
        "DEFAULT": {"host": name, "transport_url": rabbit_url, "control_exchange": name},
        "database": {"connection": database_url},
        "quota": {"containers": LIMIT, "cpu": -1, "memory": -1},
    }
    code, said = program("db_manage", words=("upgrade",), **common).run_to_end()
    assert code == 0, said
    for port in ports:
        program("api", f"api-{port}", api={"port": port, "auth_strategy": "noauth"}, **common).start()

    def create(number):
        api = Api(f"http://127.0.0.1:{ports[number % 2]}/v1")
        body = {"image": "zun-demo"}
        return [api.request("POST", "/containers", json=body).status_code for _ in range(REQUESTS // 16 + 1)]

    with ThreadPoolExecutor(16) as pool:
        statuses = [status for some in pool.map(create, range(16)) for status in some]
    assert len(statuses) >= REQUESTS
    assert (statuses.count(202), statuses.count(403)) == (LIMIT, len(statuses) - LIMIT)
    usages = Api(f"http://127.0.0.1:{ports[0]}/v1").get("/quotas/admin?usages=1")
    assert usages["containers"] == {"limit": LIMIT, "in_use": LIMIT}
