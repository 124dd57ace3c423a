# SPDX-License-Identifier: Apache-2.0
"""What a controller is built with."""

from dataclasses import dataclass
from typing import Any

from zun.api.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """The RPC clients of the scheduler and of the compute hosts, and the operator's settings."""

    scheduler_api: Any
    compute_api: Any
    settings: Settings
