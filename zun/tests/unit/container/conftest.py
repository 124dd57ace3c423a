# SPDX-License-Identifier: Apache-2.0
import pathlib
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("zun.tests.unit.container.contract", "zun.tests.unit.container.samples")

from zun.tests.unit.container.daemon import Daemon, serving  # noqa: E402 - after its rewriting is asked for


@pytest.fixture
def daemon(tmp_path: pathlib.Path) -> Iterator[Daemon]:
    with serving(tmp_path / "docker.sock") as server:
        yield server
