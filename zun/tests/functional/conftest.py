# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import pytest

from zun.tests.functional.cloud import Cloud, machine


@pytest.fixture
def cloud(database: str) -> Iterator[Cloud]:
    """A cloud of one host, ``one``, which has one cell of four CPUs. Nobody audits it but the test."""
    with Cloud({"one": machine(cells=1)}, compute__audit_interval=0) as made:
        yield made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests: a worker that gets one last would keep all others waiting."""
    items.sort(key=lambda item: not item.nodeid.rpartition("::")[0].endswith(("test_worlds.py", "test_crash_table.py")))
