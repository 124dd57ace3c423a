# SPDX-License-Identifier: Apache-2.0
"""Tell irqbalance, if it runs, which CPUs get no interrupts, so that it does not move them back.

Source: irqbalance(1), section API. It takes words on a socket of its own from root, and answers ``setup`` with
``SLEEP 10 BANNED 00000003``. A new list replaces all earlier ones, that of its own configuration included, and counts
after its next interval, until it ends.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import struct
from pathlib import Path

from zun.topology import CpuSet
from zun.topology.cpuset import NO_CPUS
from zun.topology.files import cpu_map_in

LOG = logging.getLogger(__name__)

SECONDS = 2.0
_NAME = re.compile(r" (/\S*/irqbalance(\d+)\.sock)$", re.MULTILINE)
"""Without the folder /run/irqbalance the daemon has an abstract name instead, which 1.9.2 leaves empty."""
_BANNED = re.compile(r"\bBANNED ([0-9a-fA-F,]+)")


class Irqbalance:
    """The irqbalance of this machine. ``sockets`` is the kernel's table of sockets, which names its socket."""

    def __init__(self, sockets: Path = Path("/proc/net/unix")) -> None:
        self._sockets = sockets
        self._process: str | None = None
        self._own = NO_CPUS
        """The CPUs that irqbalance's own configuration bans: those that it had before it was first told from here."""

    def ban(self, cpus: CpuSet, before: CpuSet = NO_CPUS) -> bool:
        """Let irqbalance put no interrupts on ``cpus``. Return whether it was told; a failure is logged.

        ``before`` are the CPUs that an earlier run of the agent may have told.
        """
        try:
            table = self._sockets.read_text()
        except OSError:  # a kernel without such sockets
            return False
        found = _NAME.search(table)
        if found is None:
            return False
        try:
            address, process = found.groups()
            if process != self._process:
                if not cpus | before:
                    return False  # it was never told anything
                banned = _BANNED.search(_ask(address, "setup"))
                self._own = NO_CPUS if banned is None else cpu_map_in(banned[1]) - before
                self._process = process
            listed = " ".join(map(str, cpus | self._own))
            _ask(address, f"settings cpus {listed}" if listed else "settings cpus NULL")
        except (OSError, ValueError) as exc:
            LOG.warning("irqbalance was not told to keep interrupts off CPUs %s: %s", cpus, exc)
            return False
        return True


def _ask(address: str, words: str) -> str:
    """Return the answer of irqbalance. It believes the sender's credentials only if they come with the message."""
    credentials = struct.pack("3i", os.getpid(), os.getuid(), os.getgid())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(SECONDS)
        connection.connect(address)
        connection.sendmsg([words.encode()], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)])
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer.decode("ascii", "replace")
