# SPDX-License-Identifier: Apache-2.0
"""Commands of the host that change its network interfaces."""

import subprocess
from collections.abc import Sequence

SECONDS = 30.0
FAILURES = (OSError, subprocess.SubprocessError)
"""What ``run`` raises."""


def run(command: Sequence[str]) -> None:
    """Run a command. Raises FAILURES if it cannot start, fails, or takes longer than SECONDS."""
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS, text=True)


def failure(command: Sequence[str], exc: Exception) -> str:
    """Return how the command failed, in its own words if it said any: ``'ip link' failed: No such device``."""
    told = (getattr(exc, "stderr", None) or str(exc)).strip()
    return f"'{' '.join(command)}' failed: {told}"
