# SPDX-License-Identifier: Apache-2.0
import threading
from collections.abc import Iterator

import futurist
import pytest
from hypothesis import HealthCheck, settings

from zun.tests.fixtures import admin, context, database, empty_tables

__all__ = ["admin", "context", "database", "empty_tables"]

# A busy machine refutes no property.
settings.register_profile("zun", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zun")


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
