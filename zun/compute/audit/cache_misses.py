# SPDX-License-Identifier: Apache-2.0
"""Count the misses of the last cache on single CPUs, with the counters of the processor.

Sources: perf_event_open(2) and include/uapi/linux/perf_event.h of the kernel.
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import struct
from collections.abc import Collection

LOG = logging.getLogger(__name__)

HARDWARE = 0
LAST_CACHE_MISSES = 3
_NUMBERS = {"x86_64": 298, "aarch64": 241}
"""The number of the system call, by machine."""
_ANY_PROCESS = -1
_NO_GROUP = -1
_CLOSE_ON_EXEC = 8


class CacheMisses:
    """One open counter for each CPU that is asked for. Not thread-safe."""

    def __init__(self, kind: int = HARDWARE, event: int = LAST_CACHE_MISSES) -> None:
        self._kind, self._event = kind, event
        self._files: dict[int, int] = {}
        self._impossible = False

    def counted(self, cpus: Collection[int]) -> dict[int, int] | None:
        """Return the count of each of ``cpus`` since it was first asked for. Counters of other CPUs are closed.

        None without counters: many virtual machines have none, and a kernel may forbid them.
        """
        for cpu in self._files.keys() - set(cpus):
            os.close(self._files.pop(cpu))
        if self._impossible:
            return None
        try:
            for cpu in cpus:
                if cpu not in self._files:
                    self._files[cpu] = self._opened(cpu)
            return {cpu: struct.unpack("=Q", os.read(self._files[cpu], 8))[0] for cpu in cpus}
        except OSError as exc:
            self._impossible = True
            LOG.info("The misses of the last cache cannot be counted: %s", exc)
            self.close()
            return None

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])

    def _opened(self, cpu: int) -> int:
        """Return a new counter of a CPU, whatever runs there. Raise OSError if there can be none."""
        number = _NUMBERS.get(platform.machine())
        if number is None:
            raise OSError(f"nothing is known of counters on {platform.machine()}")
        # Type, size of the structure, event; no sampling, no groups, and no flag: it counts from now on, everything.
        attributes = struct.pack("=IIQQQQQQQ", self._kind, 64, self._event, 0, 0, 0, 0, 0, 0)
        call = ctypes.CDLL(None, use_errno=True).syscall
        call.restype = ctypes.c_long
        file = call(
            ctypes.c_long(number), attributes, ctypes.c_long(_ANY_PROCESS), ctypes.c_long(cpu),
            ctypes.c_long(_NO_GROUP), ctypes.c_ulong(_CLOSE_ON_EXEC),
        )
        if file < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return int(file)
