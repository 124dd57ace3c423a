# SPDX-License-Identifier: Apache-2.0
"""One slow or hanging operation on a host delays no other."""

import threading

import pytest

from zun.network.fake import InMemoryNetworks
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine

WORKERS = 3


class Networks(InMemoryNetworks):
    """Once ``told`` to, it does not say which networks there are before ``go_on`` is set."""

    def __init__(self, go_on):
        super().__init__()
        self.told, self.go_on, self.asked = threading.Event(), go_on, threading.Event()

    def present(self):
        if self.told.is_set():
            self.asked.set()
            assert self.go_on.wait(60)
        return super().present()


@pytest.fixture
def go_on():
    """Yield the event that lets a hanging operation go on."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def cloud(database, go_on):
    options = {"compute__workers": WORKERS, "compute__sync_container_state_interval": 3600}
    cloud = Cloud({}, **options, compute__audit_interval=0)
    cloud.machines["one"], cloud.networks["one"] = machine(), Networks(go_on)
    cloud.start_agent("one")
    yield cloud
    go_on.set()
    cloud.stop()


def compare(cloud):
    """More often than there are workers."""
    for _ in range(2 * WORKERS):
        cloud.agents["one"]._compare()


def test_slow_creation_delays_no_comparison_and_no_container(cloud, context, go_on):
    begun = threading.Event()

    def hang(container):
        if container.labels == {"slow": "yes"}:
            begun.set()
            assert go_on.wait(60)

    cloud.drivers["one"].before("create", hang)
    slow = cloud.submit(context, labels={"slow": "yes"})
    assert begun.wait(60)
    compare(cloud)
    assert cloud.run(context).status == "Running"
    go_on.set()
    assert cloud.settled(slow).status == "Running"


def test_hung_comparison_delays_no_next_one_and_no_container(cloud, context, go_on):
    networks = cloud.networks["one"]
    networks.told.set()
    compare(cloud)
    assert networks.asked.wait(60)
    assert cloud.run(context).status == "Running"


def test_what_was_kept_waiting_is_done_by_a_later_comparison(cloud, context, go_on):
    networks = cloud.networks["one"]
    networks.told.set()
    compare(cloud)
    assert networks.asked.wait(60)
    go_on.set()
    networks.bridges.add("left")
    wait_for(lambda: cloud.agents["one"]._compare() or not networks.bridges)


def test_queued_operations_of_one_container_block_no_other(cloud, context, go_on):
    """A stop takes as long as its caller says; then whoever may ask for it could halt the host."""
    begun = threading.Event()

    def hang(_container):
        begun.set()
        assert go_on.wait(60)

    container = cloud.run(context)
    cloud.drivers["one"].before("stop", hang)
    for _ in range(2 * WORKERS):
        cloud.compute_api.stop(context, container, timeout=86400)
    assert begun.wait(60)
    assert cloud.run(context).status == "Running"
    go_on.set()
    wait_for(lambda: cloud.settled(container).status == "Stopped")
