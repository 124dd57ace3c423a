# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from dataclasses import replace

import pytest

from zun.container.driver.images import ImageFacts
from zun.container.fake import DEFAULT_FACTS, InMemoryDriver
from zun.container.fake.runtime import InMemoryRuntime
from zun.tests.unit.container.contract import DriverContract, Rig
from zun.topology import CpuSet


@pytest.fixture
def rig() -> Iterator[Rig]:
    runtime = InMemoryRuntime()
    drivers = [
        InMemoryDriver(
            replace(DEFAULT_FACTS, name=name),
            images={"zun-demo": ImageFacts("sha256:demo")},
            cpus=CpuSet("0-7"),
            mems=CpuSet("0"),
            runtime=runtime,
        )
        for name in ("one", "two")
    ]
    made = Rig(drivers[0], drivers[1])
    yield made
    made.clean()


class TestInMemoryDriver(DriverContract):
    """The whole of the contract, in memory."""
