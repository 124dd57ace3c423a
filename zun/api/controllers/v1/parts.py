# SPDX-License-Identifier: Apache-2.0
"""What a controller is built with."""

from dataclasses import dataclass

from zun.api.settings import Settings
from zun.compute.rpcapi import ComputeAPI
from zun.scheduler.rpcapi import SchedulerAPI


@dataclass(frozen=True, slots=True)
class Parts:
    """The RPC clients of the scheduler and of the compute hosts, and the operator's settings."""

    scheduler_api: SchedulerAPI
    compute_api: ComputeAPI
    settings: Settings
