# SPDX-License-Identifier: Apache-2.0
"""What travels over RPC, and its way from and to the database."""

import zun.common  # noqa: F401  before oslo.messaging
from zun.objects.compute_node import ComputeNode
from zun.objects.console_token import ConsoleToken
from zun.objects.container import Container
from zun.objects.container_action import ContainerActionEvent
from zun.objects.image import Image
from zun.objects.network_port import NetworkPort
from zun.objects.registry import Registry
from zun.objects.service import ZunService

__all__ = [
    "ComputeNode",
    "ConsoleToken",
    "Container",
    "ContainerActionEvent",
    "Image",
    "NetworkPort",
    "Registry",
    "ZunService",
]
