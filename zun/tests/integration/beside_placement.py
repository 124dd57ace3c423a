# SPDX-License-Identifier: Apache-2.0
"""A cloud beside a real Placement, and what rows and Placement say of its hosts."""

import uuid
from functools import partial

from keystoneauth1 import loading

from zun.common import disk_pools
from zun.common.context import RequestContext
from zun.db import aggregates
from zun.db import containers as db
from zun.objects.placement import disk_promised, held_plan
from zun.placement.allocations import allocations_of, cell_uuid, pool_uuid, root_uuid
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine

CONTEXT = RequestContext(user_id="alice", project_id="demo", roles=["member"])
DEDICATED = {"cpu_policy": "dedicated", "memory": 64}


class With:
    """A cloud of ``hosts``, each with two cells of four CPUs, whose agents write to the Placement at ``url``."""

    def __init__(self, hosts, mode, url, options):
        self.hosts = hosts
        conf = {"placement__mode": mode, "placement__auth_type": "admin_token"}
        conf |= {name if "__" in name else f"placement__{name}": value for name, value in options.items()}
        self.cloud = Cloud({}, **conf)
        self.cloud.conf.register_opts(loading.get_auth_plugin_conf_options("admin_token"), group="placement")
        self.point(url)
        for host in hosts:
            self.cloud.machines[host] = machine(cells=2, cores=4, memory_mib=1024)
            self.cloud.start_agent(host)

    def point(self, url):
        self.cloud.conf.set_override("endpoint", url, group="placement")
        self.cloud.conf.set_override("token", "admin", group="placement")

    def run(self, **fields):
        return self.cloud.run(CONTEXT, **fields)

    def restart(self, host):
        self.cloud.stop_agent(host)
        self.cloud.start_agent(host)


def rows(host):
    """Return what the rows of a host say, by container and provider."""
    found, pool = {}, disk_pools.pool_of(host, aggregates.all_aggregates())
    for row in db.of_host(host):
        plan = held_plan(row)
        made = {} if plan is None else allocations_of(host, plan, disk_promised(row), pool and pool_uuid(pool.uuid))
        if made:
            found[row["uuid"]] = made
    return found


def ledger(client, host):
    """Return what the consumers of a host have at Placement, by consumer and provider; disk of its pool as well."""
    own = [client.allocated(node.uuid) for node in client.nodes(root_uuid(host))]
    return {consumer: dict(client.consumer(consumer).allocations) for each in own for consumer in each}


def equal(client, hosts):
    return all(ledger(client, host) == rows(host) for host in hosts)


def inventories(client, host, cell):
    node = next(node for node in client.nodes(root_uuid(host)) if node.uuid == cell_uuid(host, cell))
    return client.provider(node).inventories


def others(client, **taken):
    """Another service's allocation of one provider; gives its consumer."""
    provider = taken.pop("provider")
    consumer, allocations = str(uuid.uuid4()), {provider: {"resources": taken}}
    owner = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}
    path, body = f"/allocations/{consumer}", {"allocations": allocations, **owner}
    ask = partial(client._adapter.put, path, json=body, microversion="1.39", raise_exc=False)
    wait_for(lambda: ask().status_code == 204)  # Placement answers 409 if the agent writes the provider at this moment
    return consumer
