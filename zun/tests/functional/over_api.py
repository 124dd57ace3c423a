# SPDX-License-Identifier: Apache-2.0
"""Containers with CPUs of their own in a cloud in memory, asked for over the API."""

from zun.api import app as api_app
from zun.db import containers as db
from zun.tests.fixtures import wait_for
from zun.tests.functional.api.client import Client

OPTIONS = {"api__auth_strategy": "noauth", "api__host_names": ["zun.example"], "compute__audit_interval": 0}
PAIR = {"image": "busybox", "cpu": 2, "memory": 64, "cpu_policy": "dedicated"}


def administrator_of(cloud):
    application = api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)
    return Client(application, user="root", project="admin", roles="admin", version="1.51")


def created(api, **fields):
    """Run a container like ``PAIR`` with ``fields``, and return it as it is shown once it runs or failed."""
    reply = api.post("/v1/containers?run=true", {**PAIR, **fields})
    assert reply.status == 202, reply.body
    uuid = reply.json["uuid"]
    wait_for(lambda: db.get(uuid)["status"] in ("Running", "Error"))
    return api.get(f"/v1/containers/{uuid}").json
