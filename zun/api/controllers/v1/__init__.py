# SPDX-License-Identifier: Apache-2.0
"""The nouns of the API. A new noun has a file here and in ``schemas``, ``views`` and ``policies``, and its class below.
"""

from zun.api.controllers.v1.aggregates import Aggregates
from zun.api.controllers.v1.availability_zones import AvailabilityZones
from zun.api.controllers.v1.capsules import Capsules
from zun.api.controllers.v1.container_actions import ContainerActions
from zun.api.controllers.v1.containers import Containers
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.controllers.v1.groups import Groups
from zun.api.controllers.v1.hosts import Hosts
from zun.api.controllers.v1.images import Images
from zun.api.controllers.v1.networks import Networks
from zun.api.controllers.v1.placement import Placement
from zun.api.controllers.v1.quota_classes import QuotaClasses
from zun.api.controllers.v1.quotas import Quotas
from zun.api.controllers.v1.registries import Registries
from zun.api.controllers.v1.services import Services
from zun.api.controllers.v1.sets import Sets
from zun.api.controllers.v1.volumes import Volumes

NOUNS = (
    Services,
    Containers,
    ContainerActions,
    Capsules,
    Groups,
    Sets,
    Images,
    Networks,
    Hosts,
    Aggregates,
    AvailabilityZones,
    Placement,
    Quotas,
    QuotaClasses,
    Registries,
    Volumes,
)

__all__ = ["NOUNS", "Dependencies"]
