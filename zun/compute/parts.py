# SPDX-License-Identifier: Apache-2.0
"""What works on the containers of one host, put together."""

from dataclasses import dataclass
from typing import Self

from zun.common.notifications import Notifier
from zun.compute.capsules import CapsuleMembers
from zun.compute.compute_node_tracker import ComputeNodeTracker
from zun.compute.creation import Creation
from zun.compute.holdings import Holdings
from zun.compute.images import Accounts, ImageStore
from zun.compute.lifecycle import Lifecycle
from zun.compute.network_attachments import NetworkAttachments
from zun.compute.networks import Networks
from zun.compute.operations import Operations
from zun.compute.reconciler import Reconciler
from zun.compute.resizer import Resizer
from zun.compute.runtime_objects import RuntimeObjects
from zun.compute.shared_pool import SharedPool
from zun.container.driver import ContainerDriver
from zun.scheduler.rpcapi import SchedulerAPI
from zun.volume.volumes import Volumes


@dataclass(frozen=True, slots=True)
class Parts:
    """They share ``operations``, so that one of them at a time works on a container."""

    operations: Operations
    creation: Creation
    lifecycle: Lifecycle
    resizer: Resizer
    attachments: NetworkAttachments
    reconciler: Reconciler
    images: ImageStore

    @classmethod
    def of_host(
        cls,
        hostname: str,
        tracker: ComputeNodeTracker,
        pool: SharedPool,
        driver: ContainerDriver,
        scheduler_api: SchedulerAPI,
        notifier: Notifier,
        networks: Networks,
        accounts: Accounts,
        volumes: Volumes,
    ) -> Self:
        images = ImageStore(hostname, driver)
        holdings = Holdings(hostname, tracker, pool, scheduler_api)
        operations = Operations(hostname, notifier, holdings)
        objects = RuntimeObjects(pool, driver, networks, accounts, images, volumes)
        members = CapsuleMembers(hostname, tracker, driver, objects)
        creation = Creation(
            hostname, tracker, driver, scheduler_api, notifier, networks, operations, holdings, objects, members
        )
        return cls(
            operations,
            creation,
            Lifecycle(pool, driver, notifier, networks, operations, holdings, objects),
            Resizer(hostname, tracker, pool, driver, operations, holdings, objects),
            NetworkAttachments(networks, operations),
            Reconciler(hostname, pool, driver, notifier, volumes, operations, members, creation),
            images,
        )
