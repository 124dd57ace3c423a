# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.tests.unit.container.contract import DriverContract

pytestmark = pytest.mark.docker


class TestDockerDriver(DriverContract):
    """The whole of the contract, on a real daemon."""
