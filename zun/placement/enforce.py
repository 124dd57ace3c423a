# SPDX-License-Identifier: Apache-2.0
"""Mode enforce: a claim has its allocation before its row says so."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from zun.common import exceptions

LOG = logging.getLogger(__name__)

Refusals = Mapping[str, exceptions.ZunError]
"""Why Placement refuses the allocation of a container, by uuid."""


@dataclass(frozen=True, slots=True)
class Enforced:
    """Mode enforce: seconds to wait for an answer, and whether claims stand without one."""

    wait: float
    go_on: bool

    def write(
        self,
        host: str,
        uuids: Set[str],
        put: Callable[[Set[str]], Refusals],
        look: Callable[[Set[str]], None],
        stopping: threading.Event,
    ) -> dict[str, exceptions.ClaimRefused]:
        """Call ``put`` for the containers ``uuids`` until Placement answers. Return the refused claims by uuid.

        Placement may refuse because it was not told yet what this host gave back, or because something is left behind.
        So ``look`` is called once for the refused ones, which compares and mends what their claims need, and ``put`` is
        called again. If Placement does not answer, all are refused.
        """
        deadline, looked = time.monotonic() + self.wait, False
        while True:
            try:
                refused = put(uuids)
                if looked or not refused:
                    return {uuid: exceptions.ClaimRefused(host=host, reason=str(exc)) for uuid, exc in refused.items()}
                uuids = refused.keys()
                look(uuids)
                looked = True
            except exceptions.PlacementUnavailable as exc:
                left = deadline - time.monotonic()
                if left > 0 and not stopping.is_set():
                    stopping.wait(min(left, 1.0))
                elif self.go_on:
                    for uuid in sorted(uuids):
                        LOG.warning(
                            "Container %s starts without an allocation, which is written later: %s", uuid, exc
                        )
                    return {}
                else:
                    return {uuid: exceptions.ClaimRefused(host=host, reason=str(exc)) for uuid in uuids}
