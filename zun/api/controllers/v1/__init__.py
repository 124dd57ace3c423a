# SPDX-License-Identifier: Apache-2.0
"""The nouns of the API. To add one: its file here and in ``schemas``, ``views`` and ``policies``, and its
name below.
"""

from zun.api.controllers.v1.aggregates import Aggregates
from zun.api.controllers.v1.availability_zones import AvailabilityZones
from zun.api.controllers.v1.containers import Containers
from zun.api.controllers.v1.groups import Groups
from zun.api.controllers.v1.hosts import Hosts
from zun.api.controllers.v1.parts import Parts
from zun.api.controllers.v1.placement import Placement
from zun.api.controllers.v1.services import Services

NOUNS = (Services, Containers, Groups, Hosts, Aggregates, AvailabilityZones, Placement)

__all__ = ["NOUNS", "Parts"]
