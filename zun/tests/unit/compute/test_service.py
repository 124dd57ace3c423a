# SPDX-License-Identifier: Apache-2.0
from zun.compute.service import ComputeService
from zun.container.fake import InMemoryDriver
from zun.db import services
from zun.network.fake import InMemoryNetworks
from zun.tests.functional.cloud import configuration


def test_another_agent_under_the_same_name_is_told(database, caplog):
    """A cloned machine with the name of the first gives out CPUs by a table of its own."""
    conf = configuration()
    agent, twin = (ComputeService(conf, InMemoryDriver(), InMemoryNetworks(), host="h1") for _ in range(2))

    def told() -> int:
        return sum("Another zun-compute gives signs of life as host h1" in line for line in caplog.messages)

    for _ in range(3):
        agent._heartbeat()
    services.heartbeat("h1", "zun-compute", "nova")  # ours, whose answer was lost
    agent._heartbeat()
    agent._heartbeat()
    assert told() == 0
    for _ in range(3):
        twin._heartbeat()
        agent._heartbeat()
    assert told() == 3  # both notice, each at the second time
    caplog.clear()
    services.destroy("h1", "zun-compute")
    for _ in range(3):
        agent._heartbeat()
    assert told() == 0
