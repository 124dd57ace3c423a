# SPDX-License-Identifier: Apache-2.0
import uuid
from collections.abc import Iterator

import pytest

from zun.container.docker import DockerDriver
from zun.container.docker.client import Settings
from zun.container.docker.registries import Registries
from zun.tests.unit.container.contract import Rig

LOOPBACK = Registries.of(["127.0.0.0/8"])


@pytest.fixture
def rig(docker_url: str) -> Iterator[Rig]:
    """Two agents' drivers on one daemon. Their host names are of this test only, so are its objects."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    # No network: these tests are about everything else, and then need no bridge on the machine.
    one, two = (
        DockerDriver(Settings(docker_url, f"{name}-{agent}", network_mode="none", registries=LOOPBACK))
        for agent in ("one", "two")
    )
    made = Rig(one, two)
    yield made
    made.clean()
