# SPDX-License-Identifier: Apache-2.0
"""The database of the tests: what a test leaves behind never reaches the next one."""

import pytest
import sqlalchemy as sa

from zun.db import services, session
from zun.tests.fixtures import LastingDatabase


@pytest.mark.parametrize("which", ["reader", "writer"])
@pytest.mark.parametrize("next_has_begun", [False, True])
def test_late_thread_is_refused_and_leaves_no_connection(
    lasting_database: LastingDatabase, which: str, next_has_begun: bool
) -> None:
    """A thread that had waited for its turn connects when its test has ended."""
    with lasting_database.empty():
        services.heartbeat("one", "zun-compute", "nova")
        late = getattr(session._engines, which)

    kept = []  # a thread that logs its error, or tries again, keeps what the error refers to

    def connect() -> None:
        with pytest.raises(RuntimeError, match="has ended") as caught, late.begin() as connection:
            connection.execute(sa.text("SELECT 1"))
        kept.append(caught)

    if not next_has_begun:
        connect()
    with lasting_database.empty():
        if next_has_begun:
            connect()
        assert services.all_services() == []
        services.heartbeat("two", "zun-compute", "nova")
        assert [each["host"] for each in services.all_services()] == ["two"]
