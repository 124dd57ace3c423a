# SPDX-License-Identifier: Apache-2.0
"""The objects that work on the containers of one host, put together."""

from dataclasses import dataclass
from typing import Self

from zun.compute.container.capsules import CapsuleMembers
from zun.compute.container.creation import Creation
from zun.compute.container.departures import Departures
from zun.compute.container.lifecycle import Lifecycle
from zun.compute.container.network_attachments import NetworkAttachments
from zun.compute.container.networks import Networks
from zun.compute.container.operations import Operations
from zun.compute.container.prober import Prober
from zun.compute.container.reconciler import Reconciler
from zun.compute.container.resizer import Resizer
from zun.compute.container.road import Road
from zun.compute.container.runtime_objects import RuntimeObjects
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.engine_watch import EngineWatch
from zun.compute.host.holdings import Holdings
from zun.compute.host.shared_pool import SharedPool
from zun.compute.images.glance_images import GlanceImages
from zun.compute.images.images import Accounts, ImageStore
from zun.compute.kept.records import Records
from zun.compute.kept.recovery import Recovery
from zun.compute.work.errands import Errands
from zun.compute.work.queue import Queue
from zun.container.driver.driver import ContainerDriver
from zun.messaging.notifications import Notifier
from zun.messaging.scheduler_api import SchedulerAPI
from zun.placement.ledger import Ledger
from zun.volume.runtime import NamedVolumes
from zun.volume.volumes import Volumes


@dataclass(frozen=True, slots=True)
class HostParts:
    """The objects that work on containers. With the shared ``operations``, one at a time works on a container."""

    operations: Operations
    objects: RuntimeObjects
    creation: Creation
    lifecycle: Lifecycle
    resizer: Resizer
    attachments: NetworkAttachments
    reconciler: Reconciler
    road: Road
    prober: Prober
    images: ImageStore
    named_volumes: NamedVolumes
    recovery: Recovery

    @classmethod
    def of_host(
        cls,
        hostname: str,
        *,
        tracker: ComputeNodeTracker,
        pool: SharedPool,
        driver: ContainerDriver,
        scheduler_api: SchedulerAPI,
        notifier: Notifier,
        networks: Networks,
        accounts: Accounts,
        glance: GlanceImages,
        volumes: Volumes,
        queue: Queue,
        errands: Errands,
        ledger: Ledger,
        records: Records,
        engine: EngineWatch,
        most_layer: int,
    ) -> Self:
        images = ImageStore(hostname, driver, glance)
        holdings = Holdings(hostname, tracker, pool, scheduler_api, ledger, records)
        operations = Operations(hostname, notifier, holdings, queue)
        objects = RuntimeObjects(pool, driver, networks, accounts, images, volumes, lambda: tracker.topology.devices)
        prober = Prober(driver)
        members = CapsuleMembers(hostname, tracker, driver, objects, prober)
        creation = Creation(
            hostname,
            tracker=tracker,
            driver=driver,
            engine=engine,
            scheduler_api=scheduler_api,
            notifier=notifier,
            networks=networks,
            operations=operations,
            holdings=holdings,
            objects=objects,
            members=members,
        )
        reconciler = Reconciler(
            hostname,
            pool=pool,
            driver=driver,
            notifier=notifier,
            volumes=volumes,
            operations=operations,
            members=members,
            objects=objects,
            records=records,
            prober=prober,
        )
        lifecycle = Lifecycle(pool, driver, notifier, networks, operations, holdings, objects, glance, errands)
        resizer = Resizer(hostname, tracker, pool, driver, notifier, operations, holdings, objects)
        departures = Departures(hostname, driver, notifier, operations, holdings, objects, most_layer)
        attachments = NetworkAttachments(hostname, networks, operations, tracker, holdings)
        road = Road(
            hostname,
            queue,
            tracker,
            creation,
            lifecycle,
            resizer,
            departures,
            attachments,
            reconciler,
            members,
            errands.names,
        )
        return cls(
            operations=operations,
            objects=objects,
            creation=creation,
            lifecycle=lifecycle,
            resizer=resizer,
            attachments=attachments,
            reconciler=reconciler,
            road=road,
            prober=prober,
            images=images,
            named_volumes=NamedVolumes(hostname, driver),
            recovery=Recovery(hostname, records, tracker, driver, operations, holdings, reconciler),
        )
