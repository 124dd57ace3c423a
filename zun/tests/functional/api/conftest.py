# SPDX-License-Identifier: Apache-2.0
"""The API as a WSGI application with a real database, and messages that end in a list."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_config import cfg

from zun.api import app as api_app
from zun.common.context import RequestContext
from zun.db import compute_nodes, services
from zun.objects import Container
from zun.tests.fixtures import new_container, own_conf
from zun.tests.functional.api.client import Client
from zun.tests.functional.api.messages import ComputeMessages, SchedulerMessages
from zun.topology import CpuSet, HostTopology, NUMACell

HOST = "host-1"


@pytest.fixture
def configuration() -> cfg.ConfigOpts:
    return own_conf(api__auth_strategy="noauth", api__host_names=["zun.example", "cloud.example"])


@pytest.fixture
def scheduler() -> SchedulerMessages:
    return SchedulerMessages()


@pytest.fixture
def compute() -> ComputeMessages:
    return ComputeMessages()


@pytest.fixture
def application(
    database: str, configuration: cfg.ConfigOpts, scheduler: SchedulerMessages, compute: ComputeMessages
) -> Iterator[Any]:
    yield api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)


@pytest.fixture
def api(application: Any) -> Client:
    """Requests of a member of project ``demo`` who is no administrator."""
    return Client(application, user="alice", project="demo", roles="member", version="1.40")


@pytest.fixture
def admin_api(application: Any) -> Client:
    """Requests of an administrator, whose own project is ``admin``."""
    return Client(application, user="root", project="admin", roles="admin", version="1.40")


@pytest.fixture
def placed(database: str, context: RequestContext) -> Callable[..., Container]:
    """Makes rows of containers that have a host, of project ``demo`` unless told otherwise."""

    def make(status: str = "Running", **fields: Any) -> Container:
        owner = RequestContext(user_id="u", project_id=fields.pop("project_id", context.project_id))
        return new_container(owner, **{"status": status, "host": HOST, **fields})

    return make


@pytest.fixture
def host_up(database: str) -> None:
    """The compute service of HOST is alive."""
    services.heartbeat(HOST, "zun-compute", "nova")


@pytest.fixture
def host_row(database: str) -> str:
    """The inventory of HOST: two cells of two cores with two threads. Gives its uuid."""
    return str(compute_nodes.put(HOST, inventory())["uuid"])


def inventory(**changes: Any) -> dict[str, Any]:
    """A compute node's columns."""
    topology = HostTopology(
        cells=(
            NUMACell(
                0, CpuSet("0-3"), (CpuSet("0-1"), CpuSet("2-3")), (CpuSet("0-3"),), 2048, {0: 10, 1: 20}, {2048: 8}
            ),
            NUMACell(1, CpuSet("4-7"), (CpuSet("4-5"), CpuSet("6-7")), (CpuSet("4-7"),), 1024, {0: 20, 1: 10}),
        ),
        offline=CpuSet("8"),
    ).configured(reserved_cpus=CpuSet("0"), reserved_memory_mib={0: 128})
    return {
        "topology": topology.to_dict(),
        "generation": 7,
        "cpus": 8,
        "mem_total": 3072,
        "disk_total": 100,
        "disk_quota_supported": False,
        "disk_allocation_ratio": 1.0,
        "enable_cpu_pinning": True,
        "availability_zone": "nova",
        "labels": {"rack": "3"},
        "runtimes": ["runc"],
        "architecture": "x86_64",
        "os_type": "linux",
        "os": "Debian",
        "kernel_version": "6.1",
        **changes,
    }


@pytest.fixture
def with_rules(configuration, database, scheduler, compute, tmp_path):
    """Return a function that builds the application with a policy file of the given rules."""

    def build(rules):
        file = tmp_path / "policy.json"
        file.write_text(json.dumps(rules))
        configuration.set_override("policy_file", str(file), group="oslo_policy")
        application = api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)
        return Client(application, user="alice", project="demo", roles="member", version="1.40")

    # Registers oslo.policy's options.
    api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)
    return build
