# SPDX-License-Identifier: Apache-2.0
"""Hosts whose names are not what they should be."""

import logging

import pytest

from zun.compute.service import ComputeService
from zun.container.fake import InMemoryDriver
from zun.network.fake import InMemoryNetworks
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine
from zun.volume.fake import InMemoryVolumeDriver


@pytest.fixture
def cloud(database):
    made = Cloud({"one": machine()}, compute__heartbeat_interval=1)
    yield made
    made.stop()


def test_two_agents_of_one_name_say_so(cloud, caplog):
    caplog.set_level(logging.ERROR, logger="zun.compute.service")
    assert "Another zun-compute" not in caplog.text
    other = ComputeService(
        cloud.conf,
        InMemoryDriver(),
        InMemoryNetworks(),
        host="one",
        machine=lambda: machine(cells=1),
        volumes=InMemoryVolumeDriver().as_volumes(),
    )
    other.start(cloud.transport)
    try:
        wait_for(lambda: caplog.text.count("Another zun-compute runs as host one") >= 2, seconds=60)
    finally:
        other.stop()
