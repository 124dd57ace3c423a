# SPDX-License-Identifier: Apache-2.0
"""Mode enforce: a claim has its allocation before its row says so."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from zun.common import exceptions
from zun.placement.client import REFUSALS

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Enforced:
    """Mode enforce: seconds to wait for an answer, and whether claims stand without one."""

    wait: float
    go_on: bool

    def write(
        self, host: str, uuid: str, put: Callable[[], None], look: Callable[[], None], stopping: threading.Event
    ) -> None:
        """Call ``put`` until Placement answers. Raises ClaimRefused if it has not got the claim, or does not answer.

        Placement may refuse because it was not told yet what this host gave back, or because something is left behind.
        So ``look`` is called once, which compares and mends what the claim needs, and ``put`` is called again.
        """
        deadline, looked = time.monotonic() + self.wait, False
        while True:
            try:
                try:
                    return put()
                except REFUSALS as exc:
                    if looked:
                        raise exceptions.ClaimRefused(host=host, reason=str(exc)) from exc
                look()
                looked = True
            except exceptions.PlacementUnavailable as exc:
                left = deadline - time.monotonic()
                if left > 0 and not stopping.is_set():
                    stopping.wait(min(left, 1.0))
                elif self.go_on:
                    return LOG.warning(
                        "Container %s starts without an allocation, which is written later: %s", uuid, exc
                    )
                else:
                    raise exceptions.ClaimRefused(host=host, reason=str(exc)) from exc
