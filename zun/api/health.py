# SPDX-License-Identifier: Apache-2.0
"""``/healthcheck``: whether this process answers and, with ``[healthcheck] backends``, whether its services do.

The backends ``zun_database`` and ``zun_broker`` are entry points of ``oslo.middleware.healthcheck``.
"""

import socket
from collections.abc import Callable, Iterable
from typing import Any

import oslo_messaging
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_middleware import healthcheck
from oslo_middleware.healthcheck.pluginbase import HealthcheckBaseExtension, HealthcheckResult

from zun.api.auth import WsgiApp
from zun.common import outages
from zun.db import session

BROKER_SECONDS = 2.0
AMQP_PORT = 5672


def build(conf: cfg.ConfigOpts) -> WsgiApp:
    """Return the application behind ``/healthcheck``. An address outside of allowed_source_ranges gets a plain OK."""
    made: WsgiApp = healthcheck.Healthcheck(_alive, conf)
    return made


def _alive(_environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain; charset=UTF-8"), ("Content-Length", "2")])
    return [b"OK"]


class Database(HealthcheckBaseExtension):  # type: ignore[misc]
    """Whether the database answers a query."""

    def healthcheck(self, server_port: int) -> HealthcheckResult:
        try:
            with session.reader() as connection:
                connection.execute(sa.text("SELECT 1")).close()
        except (db_exc.DBError, sa.exc.SQLAlchemyError, *outages.OUTAGES) as exc:
            return HealthcheckResult(False, "database: no answer", details=type(exc).__name__)
        return HealthcheckResult(True, "database: OK")


class Broker(HealthcheckBaseExtension):  # type: ignore[misc]
    """Whether a host of ``[DEFAULT] transport_url`` accepts connections."""

    def healthcheck(self, server_port: int) -> HealthcheckResult:
        hosts = [each for each in oslo_messaging.TransportURL.parse(self.oslo_conf).hosts if each.hostname]
        failed = []
        for host in hosts:
            address = (host.hostname, host.port or AMQP_PORT)
            try:
                with socket.create_connection(address, BROKER_SECONDS):
                    return HealthcheckResult(True, "broker: OK")
            except OSError as exc:
                failed.append(f"{address[0]}:{address[1]}: {exc.strerror or exc}")
        if failed:
            return HealthcheckResult(False, "broker: no connection", details="; ".join(failed))
        return HealthcheckResult(True, "broker: inside this process")
