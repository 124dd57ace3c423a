# SPDX-License-Identifier: Apache-2.0
"""In which of its two forms ``zun.topology`` is tested here."""

import os

from zun.topology import allocator


def test_it_is_what_is_to_be_tested():
    """Machine code where ``tools/test.sh compiled`` says so, Python everywhere else."""
    assert allocator.__file__.endswith(".so" if os.environ.get("ZUN_TEST_COMPILED") else ".py")
