# SPDX-License-Identifier: Apache-2.0
import gc
import threading
from collections.abc import Iterator

import futurist
import pytest
from hypothesis import HealthCheck, settings

from zun.tests.fixtures import admin, context, database, lasting_database

__all__ = ["admin", "context", "database", "lasting_database"]

# A busy machine refutes no property.
settings.register_profile("zun", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zun")


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking through modules and collected tests, which live to the end, once more.

    These are a million objects, and each walk takes a third of a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def short_idle_time() -> Iterator[None]:
    """Shorten the second that a stopped oslo.messaging server waits for its idle thread.

    A program stops once, but the tests stop thousands of servers. Without this fixture they take half as long again.
    """
    with futurist.ThreadPoolExecutor(1) as pool:
        worker = pool.submit(threading.current_thread).result()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(worker), "MAX_IDLE_FOR", 0.02)
        yield
