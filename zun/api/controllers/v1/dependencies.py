# SPDX-License-Identifier: Apache-2.0
"""The objects that every controller is built with."""

from dataclasses import dataclass

from zun.api.settings import Settings
from zun.messaging.compute_api import ComputeAPI
from zun.messaging.scheduler_api import SchedulerAPI


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The RPC clients of the scheduler and of the compute hosts, and the operator's settings."""

    scheduler_api: SchedulerAPI
    compute_api: ComputeAPI
    settings: Settings
