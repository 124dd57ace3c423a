# SPDX-License-Identifier: Apache-2.0
import pytest

pytest.register_assert_rewrite("zun.tests.unit.container.contract", "zun.tests.unit.container.samples")
