# SPDX-License-Identifier: Apache-2.0
"""Start and stop the parts of zun-conductor."""

import oslo_messaging
from oslo_config import cfg

from zun.common import secrets
from zun.common.context import admin_context
from zun.common.periodic import Periodic
from zun.common.secrets import Cipher
from zun.conductor.endpoint import ConductorEndpoint
from zun.conductor.facts import Facts
from zun.messaging import rpc
from zun.objects import ZunService
from zun.objects.service import CONDUCTOR_BINARY, INTERNAL_ZONE

THREADS = 16
"""Threads that work for hosts, unless [DEFAULT] executor_thread_pool_size is set."""


class ConductorService:
    """The running parts of zun-conductor. Any number of them share one queue. ``stop`` ends the calls under way."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Raise Misconfigured if the keys of registry passwords cannot be read."""
        self._conf = conf
        self._cipher = Cipher(secrets.keys(conf))

    def start(self, transport: oslo_messaging.Transport) -> None:
        endpoint = ConductorEndpoint(Facts(restoring=self._conf.conductor.accept_restored), self._cipher)
        # The slash keeps the name apart from every host's: hosts send to topics that end in theirs.
        self._server = rpc.get_server(
            transport, rpc.CONDUCTORS_TOPIC, f"/{self._conf.host}", [endpoint], addressed=True
        )
        self._server.start()
        self._periodic = Periodic([(self._heartbeat, self._conf.compute.heartbeat_interval)])
        self._periodic.start()

    def _heartbeat(self) -> None:
        ZunService.heartbeat(admin_context(), self._conf.host, CONDUCTOR_BINARY, INTERNAL_ZONE)

    def stop(self) -> None:
        self._periodic.stop()
        self._server.stop()
        self._server.wait()
