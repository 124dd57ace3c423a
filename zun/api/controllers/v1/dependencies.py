# SPDX-License-Identifier: Apache-2.0
"""The objects that every controller is built with."""

from dataclasses import dataclass, field

from zun.api.cinder import CinderVolumes, NoCinder
from zun.api.networks import Bridges, ContainerNetworks
from zun.api.settings import Settings
from zun.image.driver import ImageService
from zun.messaging.compute_api import ComputeAPI
from zun.messaging.scheduler_api import SchedulerAPI


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The RPC clients of the scheduler and of the compute hosts, the operator's settings, the cloud's networks and
    volumes, and the image service, if the operator has one.
    """

    scheduler_api: SchedulerAPI
    compute_api: ComputeAPI
    settings: Settings
    images: ImageService | None = None
    networks: ContainerNetworks = field(default_factory=Bridges)
    volumes: CinderVolumes | NoCinder = field(default_factory=NoCinder)
