# SPDX-License-Identifier: Apache-2.0
import os
import uuid
from collections.abc import Iterator

import docker
import pytest

from zun.container.docker import DockerDriver
from zun.container.docker.client import Settings
from zun.container.docker.registries import Registries
from zun.container.podman import PodmanDriver
from zun.tests.integration.container.podman import podman_with_image
from zun.tests.unit.container.contract import Rig

PODMAN = os.environ.get("PODMAN_HOST")
LOOPBACK = Registries.of(["127.0.0.0/8"])


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> Iterator[docker.APIClient]:
    """A client of the engine under test, which answers in Docker's words whatever the engine is."""
    client = (
        podman_with_image(PODMAN) if PODMAN else docker.APIClient(request.getfixturevalue("docker_url"), version="auto")
    )
    yield client
    client.close()


@pytest.fixture
def rig(engine: docker.APIClient, request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Two agents' drivers on one engine. Their host names are of this test only, so are its objects.

    With PODMAN_HOST the engine is this Podman, else it is Docker.
    """
    name = f"test-{uuid.uuid4().hex[:8]}"
    driver, url = (PodmanDriver, PODMAN) if PODMAN else (DockerDriver, request.getfixturevalue("docker_url"))
    # No network: these tests are about everything else, and then need no bridge on the machine.
    one, two = (
        driver(Settings(url, f"{name}-{agent}", network_mode="none", registries=LOOPBACK)) for agent in ("one", "two")
    )
    made = Rig(one, two)
    yield made
    made.clean()
