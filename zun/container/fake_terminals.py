# SPDX-License-Identifier: Apache-2.0
"""A terminal in memory."""

import queue
from dataclasses import dataclass, field

END_OF_INPUT = b"\x04"


@dataclass(slots=True)
class PreparedCommand:
    container_uuid: str
    started: bool = False
    size: tuple[int, int] | None = None


@dataclass(slots=True)
class Echo:
    """Gives back what is typed, as ``cat`` does, until the end of input (Ctrl-D) or a close."""

    _typed: "queue.SimpleQueue[bytes]" = field(default_factory=queue.SimpleQueue)
    _ended: bool = False

    def receive(self) -> bytes:
        if self._ended:
            return b""
        data = self._typed.get()
        self._ended = not data
        return data

    def send(self, data: bytes) -> None:
        before, end, _ = data.partition(END_OF_INPUT)
        if before:
            self._typed.put(before)
        if end:
            self.close()

    def close(self) -> None:
        self._typed.put(b"")
