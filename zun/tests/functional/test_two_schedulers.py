# SPDX-License-Identifier: Apache-2.0
"""Two scheduler services over one transport: they find each other, hand requests over, and notice who stops."""

import contextlib
import logging

from zun.scheduler.service import SchedulerService
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.cloud import cloud_of, machine

cloud = cloud_of({"h1": machine(), "h2": machine()})


def test_two_schedulers_share_the_hosts_until_one_stops(cloud, context, caplog):
    caplog.set_level(logging.INFO, logger="zun.scheduler.endpoint")
    other = SchedulerService(cloud.conf, host="scheduler-2")
    other.start(cloud.transport)
    try:
        for service in (cloud.scheduler, other):
            wait_for(lambda peers=service.peers: len(peers.shares().names) == 2)
        for host in ("h1", "h2", "h1", "h2"):
            container = cloud.run(context, request={"run": True, "host": host})
            assert (container.status, container.host) == ("Running", host)
        container = new_container(context, request={"run": True, "host": "h1"})
        other.endpoint.create(context, container=container)
        assert cloud.settled(container).host == "h1"
        assert f"Container {container.uuid} goes to scheduler scheduler," in caplog.text
    finally:
        other.stop()
    wait_for(lambda: cloud.scheduler.peers.shares().names == ("scheduler",))


def test_what_is_deleted_before_its_claim_leaves_nothing_behind(cloud, context):
    """The scheduler does not look, the host does."""
    container = new_container(context)
    container.destroy()
    with contextlib.ExitStack() as agents:
        for agent in cloud.agents.values():  # none of them looks before it was seen what is booked
            agents.enter_context(agent.parts.operations.undisturbed(context, container.uuid))
        cloud.scheduler.endpoint.create(context, container=container)
        assert cloud.scheduler.table.is_booked(container.uuid)
    wait_for(lambda: not cloud.scheduler.table.is_booked(container.uuid), seconds=20)  # and not by the deadline
    for agent, driver in zip(cloud.agents.values(), cloud.drivers.values(), strict=True):
        assert agent.tracker.usage.claim(container.uuid) is None
        assert driver.list() == {}
