# SPDX-License-Identifier: Apache-2.0
"""The members of a port and of a container that the network driver reads."""

import uuid
from dataclasses import dataclass, field

SUBNET = {"uuid": "s", "cidr": "10.218.1.0/24", "gateway": "10.218.1.1"}


@dataclass(frozen=True)
class Port:
    ipv4: str = "10.218.1.9"
    ipv6: str | None = None
    subnets: tuple = (SUBNET,)
    network_uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    network_name: str | None = None
    project_id: str = "demo"
    uuid: str = "p"


@dataclass(frozen=True)
class Container:
    uuid: str
    name: str = "web"
