# SPDX-License-Identifier: Apache-2.0
"""Settings for the number of cases that a property test tries."""

import contextlib
import os
import sys
from collections.abc import Iterator

from hypothesis import HealthCheck, settings

PROOF_SIZE = float(os.environ.get("ZUN_PROOF_SIZE", "1"))


def proof(examples: int, **options: object) -> settings:
    """Try ``examples`` cases, times ZUN_PROOF_SIZE. The cases of one test share its fixtures."""
    return settings(
        max_examples=max(1, int(examples * PROOF_SIZE)),
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
            HealthCheck.filter_too_much,  # random hosts are often too full for a random request
        ],
        **options,  # type: ignore[arg-type]
    )


@contextlib.contextmanager
def busy_switching() -> Iterator[None]:
    """Inside, threads take turns after every few instructions, so that what is not exclusive goes wrong."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
