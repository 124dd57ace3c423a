# SPDX-License-Identifier: Apache-2.0
"""The versioned objects that services send over RPC, and their mapping to rows of the database."""

import zun.common  # noqa: F401  before oslo.messaging
from zun.objects.compute_node import ComputeNode
from zun.objects.console_token import ConsoleToken
from zun.objects.container import Container
from zun.objects.container_action import ContainerActionEvent
from zun.objects.image import Image
from zun.objects.network_port import NetworkPort
from zun.objects.registry import Registry
from zun.objects.service import ZunService
from zun.objects.volume import Volume

__all__ = [
    "ComputeNode",
    "ConsoleToken",
    "Container",
    "ContainerActionEvent",
    "Image",
    "NetworkPort",
    "Registry",
    "Volume",
    "ZunService",
]
