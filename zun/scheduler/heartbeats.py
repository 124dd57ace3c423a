# SPDX-License-Identifier: Apache-2.0
"""The age of the last heartbeat of every service, for Prometheus."""

from collections.abc import Iterable, Sequence

from oslo_utils import timeutils
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zun.db import services, session
from zun.objects.service import silent_seconds


class HeartbeatCollector(Collector):
    """The heartbeats in the database as ``read`` found them last.

    If the database does not answer, ``read`` fails and the ages rise. A request for metrics waits for no database.
    """

    def __init__(self) -> None:
        self._services: Sequence[session.Row] = ()

    def read(self) -> None:
        self._services = services.all_services()

    def describe(self) -> Iterable[Metric]:
        """Return nothing: schedulers of one process share the name of the metric."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield the ages of this moment."""
        ages = GaugeMetricFamily(
            "zun_service_heartbeat_age_seconds",
            "Time since the last heartbeat of a service in the database, by the clock of this scheduler.",
            labels=["host", "binary"],
        )
        now = timeutils.utcnow()
        for service in self._services:
            ages.add_metric([service["host"], service["binary"]], silent_seconds(service, now))
        yield ages
