# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.container.fake import InMemoryDriver
from zun.tests.functional.cloud import Cloud, cloud_of, machine

# One host with one cell of four CPUs. Nobody audits it but the test.
cloud = cloud_of({"one": machine(cells=1)}, compute__audit_interval=0)


@pytest.fixture
def driver(cloud: Cloud) -> InMemoryDriver:
    """The runtime of host ``one``."""
    return cloud.drivers["one"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests: a worker that gets one last would keep all others waiting."""
    items.sort(key=lambda item: not item.nodeid.rpartition("::")[0].endswith(("test_worlds.py", "test_crash_table.py")))
