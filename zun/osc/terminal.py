# SPDX-License-Identifier: Apache-2.0
"""Run a command of a container at the user's terminal, and return its exit code."""

import contextlib
import re
import struct
from typing import Any

from osc_lib import exceptions
from websocket import ABNF
from zunclient.common.apiclient import exceptions as client_exceptions
from zunclient.common.websocketclient import exceptions as websocket_errors
from zunclient.common.websocketclient import websocketclient

NORMAL = 1000
_EXIT_CODE = re.compile(r"exit code (-?\d+)\Z")
ESCAPE, CLOSE_SECONDS = "~", 0.5  # python-zunclient's values


class _Command(websocketclient.ExecClient):
    """python-zunclient's terminal. ``closing`` is the code and reason with which the server ended the session."""

    closing: tuple[int, str] | None = None

    def recv(self) -> bytes | str:
        opcode, data = self.ws.recv_data()
        if opcode != ABNF.OPCODE_CLOSE:
            return bytes(data)
        self.closing = struct.unpack("!H", data[:2])[0] if data else NORMAL, data[2:].decode(errors="replace")
        return ""

    def tty_resize(self, height: Any, width: Any) -> None:
        with contextlib.suppress(client_exceptions.HttpError):  # a terminal of the wrong size is better than none
            super().tty_resize(height, width)


def run(client: Any, url: str, container: str, exec_id: str) -> int:
    """Run a prepared command at the terminal and return its exit code, 0 if the server does not send it."""
    command = _Command(client, url, exec_id, container, ESCAPE, CLOSE_SECONDS)
    try:
        command.connect()
        command.handle_resize()
        command.start_loop()
    except websocket_errors.UserExit:
        return 0
    except websocket_errors.ContainerWebSocketException as exc:
        raise exceptions.CommandError(f"The terminal of container {container} failed: {exc}") from exc
    return outcome(container, command.closing)


def outcome(container: str, closing: tuple[int, str] | None) -> int:
    """Return the exit code in a close frame: 3 for ``exit code 3``. CommandError if the session ended otherwise."""
    if closing is None:  # the user's input ended first
        return 0
    code, reason = closing
    if code != NORMAL:
        raise exceptions.CommandError(f"The terminal of container {container} was closed: {reason or code}")
    told = _EXIT_CODE.match(reason)
    return int(told[1]) if told else 0
