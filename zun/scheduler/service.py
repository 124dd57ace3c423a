# SPDX-License-Identifier: Apache-2.0
"""Start and stop the parts of zun-scheduler, for its own program and for the all-in-one program."""

import contextlib

import oslo_messaging
import prometheus_client
from oslo_config import cfg

from zun.common import exceptions
from zun.common.context import admin_context
from zun.common.periodic import Periodic
from zun.messaging import releases, rpc
from zun.messaging.compute_api import ComputeAPI
from zun.messaging.scheduler_api import SchedulerAPI
from zun.objects import ZunService
from zun.objects.container_action import LOST_SECONDS
from zun.objects.service import INTERNAL_ZONE, SCHEDULER_BINARY
from zun.scheduler import filters, weighers
from zun.scheduler.endpoint import SchedulerEndpoint
from zun.scheduler.heartbeats import HeartbeatCollector
from zun.scheduler.host_table import HostTable
from zun.scheduler.peers import WORD_SECONDS, Peers
from zun.scheduler.rearranger import Rearranger

MOVES_INTERVAL = 1
"""Seconds between two looks at moves: those for which others wait, and those between hosts."""

THREADS = 8
"""Threads that place containers, unless [DEFAULT] executor_thread_pool_size is set.

They share the lock of the host table, so few are enough: a few wait for the broker at a time. With oslo.messaging's
default of 64 threads, a fifth of the time went into waking each other.
"""


class SchedulerService:
    """The running parts of zun-scheduler. Call ``start`` after any fork. ``stop`` waits for messages in progress."""

    def __init__(self, conf: cfg.ConfigOpts, *, host: str | None = None, alone: bool = False) -> None:
        """Load the filters and weighers. Raise Misconfigured if an option is wrong.

        ``alone`` means that no message from before the start can still arrive. So ``start`` schedules containers
        without a host again at once.
        """
        self._conf = conf
        self._host: str = host or conf.host
        self._alone = alone
        self._filters = filters.load(conf.scheduler.enabled_filters, conf)
        self._weighers = weighers.load(conf.scheduler.weighers, conf)
        reads = [each.reads_io_ops for each in self._filters] + [each.weigher.reads_io_ops for each in self._weighers]
        self.table = HostTable(
            booking_seconds=conf.scheduler.booking_deadline,
            failure_seconds=conf.scheduler.failure_window,
            counts_io_ops=any(reads),
        )
        # Read the options now: an invalid value stops the program at its start instead of failing each sweep.
        self._lost_after, self._down_after = conf.scheduler.lost_after, conf.service_down_time
        self._rearrange, self._move_by_default = conf.scheduler.rearrange, conf.scheduler.move_by_default

    def start(self, transport: oslo_messaging.Transport) -> None:
        conf = self._conf
        levels = conf.upgrade_levels
        compute, scheduler = (releases.pinned(name, levels[name]) for name in ("compute", "scheduler"))
        compute_api = ComputeAPI(transport, pin=compute)
        self.peers = Peers(self._host, SchedulerAPI(transport, pin=scheduler))
        self.endpoint = SchedulerEndpoint(
            self.table,
            self._filters,
            self._weighers,
            compute_api,
            peers=self.peers,
            max_attempts=conf.scheduler.max_attempts,
            alternates=conf.scheduler.alternates,
            host_subset_size=conf.scheduler.host_subset_size,
            rearranger=Rearranger(
                self.table,
                self._filters,
                compute_api,
                use=self._rearrange,
                by_default=self._move_by_default,
            ),
        )
        if self._alone:
            self.endpoint.sweep(0)
        self._heartbeats = HeartbeatCollector()
        prometheus_client.REGISTRY.register(self._heartbeats)
        self._server = rpc.get_server(transport, rpc.SCHEDULER_TOPIC, self._host, [self.endpoint])
        self._server.start()
        self._periodic = Periodic(
            [
                (self._sweep, conf.scheduler.sweep_interval),
                (self.endpoint.place_after_moves, MOVES_INTERVAL),
                (self.endpoint.carry_on, MOVES_INTERVAL),
                (self._tell, WORD_SECONDS),
                (self._heartbeat, conf.compute.heartbeat_interval),
            ]
        )
        self._periodic.start()

    def _sweep(self) -> None:
        self.endpoint.sweep(self._lost_after)
        self.endpoint.abandon()
        self.endpoint.retire(self._down_after)
        self.endpoint.end_lost(LOST_SECONDS)

    def _heartbeat(self) -> None:
        ZunService.heartbeat(admin_context(), self._host, SCHEDULER_BINARY, INTERNAL_ZONE)
        self._heartbeats.read()

    def _tell(self) -> None:
        self.peers.tell(admin_context())

    def stop(self) -> None:
        prometheus_client.REGISTRY.unregister(self._heartbeats)
        self._periodic.stop()
        with contextlib.suppress(exceptions.HostUnavailable):  # the other schedulers miss its heartbeat soon
            self.peers.tell(admin_context(), leaving=True)
        self._server.stop()
        self._server.wait()
