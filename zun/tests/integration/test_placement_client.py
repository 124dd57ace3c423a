# SPDX-License-Identifier: Apache-2.0
"""The client of Placement against a real server."""

import uuid
from dataclasses import replace

import pytest
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint

from zun.common import exceptions
from zun.placement.allocations import Holding, cell_uuid, page_class
from zun.placement.client import (
    CapacityExceeded,
    Consumer,
    GenerationConflict,
    InUse,
    PlacementClient,
    Refused,
)
from zun.placement.tree import OWN_TRAITS, Disk, tree
from zun.tests.integration.programs import free_port
from zun.tests.unit.topology.build import cell, host
from zun.topology import Usage

MACHINE = host(cell(0, "0,4 1,5", 1000, pages={2048: 8}), cell(1, "2 3", 1000))


class Published:
    """The providers of a host of its own, at the server."""

    def __init__(self, client):
        self.client, self.host = client, f"h-{uuid.uuid4().hex[:8]}"
        self.wanted = tree(self.host, MACHINE, Usage(), Disk(10, 1.5), traits=["HW_CPU_X86_AVX", "CUSTOM_QUIET"])
        self.root, self.cell, self.other = (provider.uuid for provider in self.wanted)
        for provider in self.wanted:
            generation = client.create(provider)
            generation = client.set_inventories(provider.uuid, generation, provider.inventories)
            client.set_traits(provider.uuid, generation, provider.traits)
        self.holding = Holding({self.cell: {"PCPU": 2, page_class(2048): 3}}, "project", "user")

    def generation(self, provider):
        return next(node.generation for node in self.client.nodes(self.root) if node.uuid == provider)


@pytest.fixture
def published(placement_client):
    return Published(placement_client)


def test_what_is_written_is_read_again(published):
    client = published.client
    nodes = client.nodes(published.cell)
    assert {node.name for node in nodes} == {published.host, f"{published.host}_NUMA_0", f"{published.host}_NUMA_1"}
    assert [client.provider(node) for node in sorted(nodes, key=lambda node: node.name)] == list(published.wanted)
    assert client.named(published.host).uuid == published.root
    assert (client.named("nobody"), client.nodes(str(uuid.uuid4()))) == (None, [])


def test_every_trait_is_one_of_the_server(published):
    client = published.client
    client.set_traits(published.root, published.generation(published.root), OWN_TRAITS)
    root = next(node for node in client.nodes(published.root) if node.parent is None)
    assert client.provider(root).traits == OWN_TRAITS


def test_traits_the_server_knows_not_are_left_out(published):
    client = published.client
    client.set_traits(published.root, published.generation(published.root), ["HW_CPU_X86_SSE", "HW_CPU_X86_SSE99"])
    root = next(node for node in client.nodes(published.root) if node.parent is None)
    assert client.provider(root).traits == {"HW_CPU_X86_SSE"}


def test_allocations_by_generation(published):
    client, consumer = published.client, str(uuid.uuid4())
    assert client.consumer(consumer) == Consumer({})
    assert client.allocate(consumer, published.holding, None) == 1
    assert client.consumer(consumer) == Consumer(published.holding.allocations, 1, "CONTAINER", "project", "user")
    assert client.allocated(published.cell) == {consumer: published.holding.allocations[published.cell]}
    more = replace(published.holding, allocations={published.cell: {"PCPU": 1}, published.root: {"DISK_GB": 1}})
    assert client.allocate(consumer, more, 1) == 2
    with pytest.raises(GenerationConflict):
        client.allocate(consumer, published.holding, 1)
    assert client.allocate(consumer, replace(more, allocations={}), 2) is None
    assert client.consumer(consumer) == Consumer({})


def test_several_consumers_change_or_none(published):
    client, (one, two, three) = published.client, (str(uuid.uuid4()) for _ in range(3))
    holding = Holding({published.cell: {"PCPU": 1}}, "project", "user")
    nothing = replace(holding, allocations={})
    assert client.allocate_together({one: (holding, None), two: (holding, None)}) == {one: 1, two: 1}
    more = replace(holding, allocations={published.cell: {"PCPU": 2}})
    assert client.allocate_together({one: (nothing, 1), two: (more, 1)}) == {one: None, two: 2}
    assert (client.consumer(one), client.consumer(two).generation) == (Consumer({}), 2)
    with pytest.raises(GenerationConflict):
        client.allocate_together({two: (nothing, 1), three: (holding, None)})
    with pytest.raises(CapacityExceeded):
        client.allocate_together({two: (holding, 2), three: (more, None), one: (more, None)})
    assert client.allocated(published.cell) == {two: {"PCPU": 2}}


def test_no_more_than_there_is(published):
    with pytest.raises(CapacityExceeded, match="PCPU"):
        published.client.allocate(
            str(uuid.uuid4()), replace(published.holding, allocations={published.cell: {"PCPU": 5}}), None
        )


def test_stale_inventories(published):
    generation = published.generation(published.cell)
    published.client.allocate(str(uuid.uuid4()), published.holding, None)
    with pytest.raises(GenerationConflict):
        published.client.set_inventories(published.cell, generation, published.wanted[1].inventories)


def test_what_is_allocated_stays(published):
    client = published.client
    client.allocate(str(uuid.uuid4()), published.holding, None)
    generation = published.generation(published.cell)
    with pytest.raises(InUse):
        client.set_inventories(published.cell, generation, {"VCPU": published.wanted[1].inventories["VCPU"]})
    with pytest.raises(InUse):
        client.remove(published.cell)
    with pytest.raises(InUse):
        client.remove(published.root)
    client.remove(published.other)
    client.remove(published.other)
    assert client.allocated(published.other) == {}


def test_unknown_provider_is_refused(published):
    nowhere = replace(published.holding, allocations={cell_uuid("nobody", 0): {"PCPU": 1}})
    with pytest.raises(Refused):
        published.client.allocate(str(uuid.uuid4()), nowhere, None)


@pytest.mark.parametrize("token", ["nobody", None], ids=["no-role", "no-server"])
def test_no_use_is_unavailable(placement_url, token):
    url = placement_url if token else f"http://127.0.0.1:{free_port()}"
    auth = token_endpoint.Token(url, token or "admin")
    client = PlacementClient(ks_adapter.Adapter(ksa_session.Session(auth=auth), service_type="placement"))
    with pytest.raises(exceptions.PlacementUnavailable, match="403" if token else "127.0.0.1"):
        client.named("h1")
