# SPDX-License-Identifier: Apache-2.0
"""One host of Nova and of this service at a real Placement: Nova's own report client writes beside the agent.

The steps are random. ZUN_NOVA_STEPS and ZUN_NOVA_SEED choose how many there are and which.
"""

import contextlib
import json
import os
import pathlib
import random
import subprocess
import uuid
from collections import Counter

import pytest

from zun.common import exceptions
from zun.db import aggregates
from zun.placement import reporter
from zun.placement.allocations import Holding, cell_uuid, root_uuid
from zun.tests.fixtures import wait_for
from zun.tests.integration import foreign
from zun.tests.integration.beside_placement import CONTEXT, With, ledger, rows

STEPS = int(os.environ.get("ZUN_NOVA_STEPS", "100"))
SEED = int(os.environ.get("ZUN_NOVA_SEED", "1"))
TOGETHER = 10
"""Steps between two comparisons."""
OWN_TRAITS = ["COMPUTE_NODE", "COMPUTE_ACCELERATORS", "COMPUTE_TRUSTED_CERTS", "HW_CPU_X86_AVX"]
NOVA_STEPS = ["inventory", "traits", "device", "claim", "claim", "claim", "resize", "delete", "aggregate", "restart"]
OUR_STEPS = ["create", "create", "create", "resize", "delete", "delete", "heal", "drift", "aggregate", "trait", "trait",
             "restart"]  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.foreign, pytest.mark.timeout(60 + 6 * STEPS)]


def record(total, reserved=0, ratio=1.0):
    return {
        "total": total, "reserved": reserved, "min_unit": 1, "max_unit": total, "step_size": 1,
        "allocation_ratio": ratio,
    }  # fmt: skip


class Nova:
    """Nova's report client in a process of its own, and everything that Placement must have of it."""

    def __init__(self, environment, url, host, log):
        self.host, self.uuid = host, str(uuid.uuid4())
        words = [environment / "bin/python", pathlib.Path(foreign.__file__).with_name("nova_compute.py")]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [*words, url, host, self.uuid], stdin=pipe, stdout=pipe, stderr=log, text=True, bufsize=1
        )
        self.root = {"PCPU": record(2), "VCPU": record(2, 0, 4.0), "MEMORY_MB": record(2048, 1000),
                     "DISK_GB": record(100)}  # fmt: skip
        self.devices = {}
        self.traits = {"COMPUTE_NODE"}
        self.others_traits = set()
        self.aggregates = set()
        self.servers = {}
        self.update()

    def stop(self):
        self._process.stdin.close()
        self._process.wait(30)

    def do(self, *step):
        self._process.stdin.write(json.dumps(step) + "\n")
        answer = json.loads(self._process.stdout.readline())
        assert not isinstance(answer, dict), answer["error"]
        return answer

    def update(self):
        self.do("update", self.root, OWN_TRAITS, sorted(self.traits), self.devices)

    def step(self, rng):
        """Do one of the things that nova-compute, the conductor and the API do."""
        kind = rng.choice(NOVA_STEPS)
        if kind == "inventory":
            self.root |= {
                "VCPU": record(2, 0, rng.choice([1.0, 4.0, 16.0])),
                "MEMORY_MB": record(2048, 1000, rng.choice([1.0, 1.2, 1.5])),
                "DISK_GB": record(rng.choice([80, 100])),
            }
            self.update()
        elif kind == "traits":
            self.traits = {"COMPUTE_NODE", *rng.sample(OWN_TRAITS, 2)}
            self.update()
        elif kind == "device":
            name = f"{self.host}_0000:81:00.{rng.randrange(2)}"
            if self.devices.pop(name, None) is None:
                self.devices[name] = {"CUSTOM_PCI_8086_1520": record(rng.randint(1, 8))}
            self.update()
        elif kind == "claim" or (kind in ("resize", "delete") and not self.servers):
            server, wanted = str(uuid.uuid4()), self.flavour(rng)
            if self.do("claim", server, wanted, "nova-project", "nova-user"):
                self.servers[server] = wanted
        elif kind == "resize":
            server, wanted = rng.choice(sorted(self.servers)), self.flavour(rng)
            if self.do("resize", server, wanted):
                self.servers[server] = wanted
        elif kind == "delete":
            server = rng.choice(sorted(self.servers))
            self.do("delete", server)  # False if an earlier attempt did it, whose answer was lost
            del self.servers[server]
        elif kind == "aggregate":
            if self.aggregates:
                self.do("leave", self.aggregates.pop())
            else:
                self.aggregates.add(str(uuid.uuid4()))
                self.do("join", *self.aggregates)
        else:
            self.do("restart")
        return kind

    def flavour(self, rng):
        cpus = rng.choice([{"PCPU": 1}, {"VCPU": 1}, {"VCPU": 2}])
        return {**cpus, "MEMORY_MB": rng.choice([64, 200]), "DISK_GB": rng.randint(1, 9)}

    @property
    def taken(self):
        return sum(map(Counter, self.servers.values()), Counter())


class Ours:
    """This service on the same host, and what an operator put on its providers."""

    def __init__(self, made, client, host):
        self.made, self.client, self.host = made, client, host
        self.containers, self.traits, self.group = [], {}, None

    @property
    def agent(self):
        return self.made.cloud.agents[self.host]

    def step(self, rng):
        """Do one of the things that users, operators and failures do."""
        cloud = self.made.cloud
        kind = rng.choice(OUR_STEPS)
        if kind == "create" or (kind in ("resize", "delete", "drift") and not self.containers):
            policy = rng.choice(["dedicated", "shared"])
            cpus, disk = float(rng.randint(1, 2)), rng.choice([0, 0, 3])
            one = self.made.run(cpu=cpus, cpu_policy=policy, memory=rng.choice([16, 128]), disk=disk)
            if one.status == "Running":
                self.containers.append(one)
            else:
                assert "No valid host was found" in one.status_reason, one.status_reason
        elif kind == "resize":
            one = cloud.settled(rng.choice(self.containers))
            with contextlib.suppress(exceptions.ClaimRefused):
                cloud.compute_api.update(CONTEXT, one, cpu=float(rng.randint(1, 2)), memory=rng.choice([16, 200]))
        elif kind == "delete":
            one = self.containers.pop(rng.randrange(len(self.containers)))
            cloud.compute_api.delete(CONTEXT, cloud.settled(one), force=True)
            cloud.gone(one)
        elif kind == "heal":
            with contextlib.suppress(exceptions.PlacementUnavailable):  # a locked database
                reporter.Reporter(self.host, self.client, self.agent._inventory.providers).heal()
        elif kind == "drift":  # somebody's hand at Placement
            one = rng.choice(self.containers).uuid
            with contextlib.suppress(exceptions.ZunError):
                held = Holding({root_uuid(self.host): {"DISK_GB": 1}}, "demo", "alice")
                self.client.allocate(one, held, self.client.consumer(one).generation)
        elif kind == "aggregate":
            if self.group is None:
                self.group = aggregates.insert(f"group-{uuid.uuid4().hex}", {})["uuid"]
                aggregates.add_host(self.group, self.host)
            else:
                aggregates.remove_host(self.group, self.host)
                self.group = None
        elif kind == "trait":
            provider = cell_uuid(self.host, rng.randrange(2))
            self.traits.setdefault(provider, set()).add(name := f"CUSTOM_OURS_{rng.randrange(3)}")
            add_trait(self.client, provider, name)
        else:
            self.made.restart(self.host)
        return kind


def add_trait(client, provider, name):
    """Add a trait as an operator does, who repeats the command after a conflict."""

    def added():
        node = next(each for each in client.nodes(provider) if each.uuid == provider)
        with contextlib.suppress(exceptions.Conflict):
            return client.set_traits(provider, node.generation, {*client.provider(node).traits, name})

    wait_for(added)


def providers(client, root):
    """Return the inventories, traits and aggregates at Placement of each provider of a tree, by name."""
    found = {}
    for node in client.nodes(root):
        raw = client._get(f"/resource_providers/{node.uuid}/inventories")["inventories"]
        known = client.provider(node)
        found[node.name] = raw, known.traits, known.aggregates
    return found


def allocations(client, root):
    found = {}
    for node in client.nodes(root):
        for consumer, taken in client.allocated(node.uuid).items():
            found.setdefault(consumer, {})[node.uuid] = taken
    return found


def of_nova(nova):
    """Return the records that Placement must have of Nova's tree."""
    traits = frozenset(nova.traits | nova.others_traits)
    devices = {name: (made, frozenset(), frozenset()) for name, made in nova.devices.items()}
    return {nova.host: (nova.root, traits, frozenset(nova.aggregates)), **devices}


def of_ours(ours):
    """Return the records that Placement must have of our tree, in the form of ``PlacementClient.provider``."""
    groups = [] if ours.group is None else [ours.group]
    wanted = ours.agent._inventory.providers(f"{ours.host}_ZUN", groups)
    return {
        each.name: (dict(each.inventories), each.traits | ours.traits.get(each.uuid, set()), each.aggregates)
        for each in wanted
    }


def seen_of_ours(client, host):
    found = map(client.provider, client.nodes(root_uuid(host)))
    return {each.name: (dict(each.inventories), each.traits, each.aggregates) for each in found}


@pytest.fixture
def host():
    return f"shared-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def nova(placement_url, host, tmp_path):
    with (tmp_path / "nova.log").open("w") as log:
        made = Nova(foreign.installed("nova"), placement_url, host, log)
        yield made
        made.stop()
    print((tmp_path / "nova.log").read_text()[-3000:])


@pytest.fixture
def divided():
    """The options that leave CPUs 3 and 5-7 to Nova."""
    return {"compute__cpu_dedicated_set": "0-1,4", "compute__cpu_shared_set": "2"}


@pytest.fixture
def ours(nova, divided, database, placement_url, placement_client, host, monkeypatch):
    monkeypatch.setattr(reporter, "SWEEP_SECONDS", 0.2)
    monkeypatch.setattr(reporter, "RETRY_SECONDS", 0.2)
    made = With([host], "report", placement_url, divided)
    yield Ours(made, placement_client, host)
    made.cloud.stop()


def test_nothing_is_lost_in_random_steps(nova, ours, placement_client, host):
    """After every few steps both trees and all allocations are what their owners made."""
    rng = random.Random(SEED)
    print(f"ZUN_NOVA_SEED={SEED} ZUN_NOVA_STEPS={STEPS}")
    done = Counter()
    wait_for(lambda: len(placement_client.nodes(root_uuid(host))) == 3)
    add_trait(placement_client, nova.uuid, "CUSTOM_RACK_7")
    nova.others_traits.add("CUSTOM_RACK_7")
    for step in range(1, STEPS + 1):
        who = rng.choice([nova, ours])
        done[f"{type(who).__name__} {who.step(rng)}"] += 1
        if step % TOGETHER and step < STEPS:
            continue
        assert providers(placement_client, nova.uuid) == of_nova(nova), step
        servers = {server: {nova.uuid: taken} for server, taken in nova.servers.items()}
        assert allocations(placement_client, nova.uuid) == servers, step
        wait_for(lambda: ledger(placement_client, host) == rows(host))
        wait_for(lambda: seen_of_ours(placement_client, host) == of_ours(ours))
        wait_for(lambda: left_to(ours) == (nova.taken["MEMORY_MB"], nova.taken["DISK_GB"], 0))
    print(done)


@pytest.mark.parametrize("divided", [{}])
def test_undivided_cpus_are_left_to_nova(nova, ours):
    """Nova reports four CPUs of which containers could have each."""
    server = str(uuid.uuid4())
    assert nova.do("claim", server, {"PCPU": 2, "VCPU": 2, "MEMORY_MB": 200}, "nova-project", "nova-user")
    wait_for(lambda: left_to(ours) == (200, 0, 2))
    assert ours.agent.tracker.topology.foreign.total.shared == 8  # half a CPU by Nova's ratio of 4, at ours of 16
    dedicated = {"cpu_policy": "dedicated", "memory": 16}
    assert ours.made.run(cpu=4.0, **dedicated).status == "Error"
    assert ours.made.run(cpu=2.0, **dedicated).status == "Running"
    assert nova.do("delete", server)
    wait_for(lambda: not ours.agent.tracker.topology.foreign)
    assert ours.made.run(cpu=4.0, **dedicated).status == "Running"


def left_to(ours):
    """The memory, disk and CPUs that the planner leaves to Nova."""
    taken = ours.agent.tracker.topology.foreign
    return taken.total.memory_mib, taken.disk, len(taken.withheld)
