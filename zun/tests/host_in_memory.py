# SPDX-License-Identifier: Apache-2.0
"""The parts of an agent's host around runtimes in memory, for simulations and benchmarks of many hosts."""

import pathlib
from typing import Any

from oslo_config import cfg

from zun.compute.container.networks import Networks, Published
from zun.compute.container.operations import key_of
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.engine_watch import EngineWatch
from zun.compute.host.shared_pool import SharedPool
from zun.compute.host_parts import HostParts
from zun.compute.images.glance_images import GlanceImages
from zun.compute.images.images import Accounts
from zun.compute.kept.records import Records
from zun.compute.work.errands import Errands
from zun.compute.work.queue import Instead, Queue
from zun.container.fake import InMemoryDriver
from zun.network.fake import InMemoryNetworks
from zun.placement.ledger import NoLedger
from zun.volume.fake import InMemoryVolumeDriver


def parts_in_memory(
    conf: cfg.ConfigOpts,
    host: str,
    tracker: ComputeNodeTracker,
    pool: SharedPool,
    driver: InMemoryDriver,
    *,
    scheduler_api: Any,
    notifier: Any,
    records: pathlib.Path,
) -> HostParts:
    """Put ``host`` together. ``records`` is the folder of its records of held claims.

    ``scheduler_api`` and ``notifier`` stand for ``SchedulerAPI`` and ``Notifier``. The caller runs the work itself: the
    queue has no threads.
    """
    return HostParts.of_host(
        host,
        tracker=tracker,
        pool=pool,
        driver=driver,
        scheduler_api=scheduler_api,
        notifier=notifier,
        networks=Networks(host, InMemoryNetworks(), Published.from_conf(conf)),
        accounts=Accounts.from_conf(conf),
        glance=GlanceImages.from_conf(conf, driver),
        volumes=InMemoryVolumeDriver().as_volumes(),
        queue=Queue(),
        errands=Errands(),
        ledger=NoLedger(),
        records=Records(records),
        most_layer=2**20,
        engine=EngineWatch(host, driver, scheduler_api, records / "engine.json"),
    )


def look_now(parts: HostParts, uuid: str) -> None:
    """Look at a container, and do what is next for it, in this thread."""
    while True:
        with parts.operations.queue.turn(key_of(uuid)):
            answer = parts.road.look(uuid)
        if not isinstance(answer, Instead):
            return
        uuid = answer.key.name
