# SPDX-License-Identifier: Apache-2.0
"""The stock ``openstack`` client, loaded once. Each call runs in a fork, as a process of its own.

Loading the client takes two seconds of CPU time, a call in a fork a twentieth of one. The program of this module is
started by the first ``run`` and ends with the process that started it.
"""

import contextlib
import fcntl
import functools
import json
import logging
import os
import pty
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO

SECONDS = 120


def run(words: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Run ``openstack WORDS``. Return its exit code, and its output followed by its errors."""
    start()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        code = call(os.getpid(), words, environment, (output.fileno(), errors.fileno()))
        return code, "".join(_text(stream) for stream in (output, errors))


def run_on_terminal(words: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Run ``openstack WORDS`` on a terminal of 30 lines. Return its exit code and what the terminal shows."""
    start()
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as shown, ThreadPoolExecutor(1) as threads:
        try:
            termios.tcsetwinsize(theirs, (30, 100))
            output = threads.submit(_everything, shown)
            code = call(os.getpid(), words, environment, (theirs,))
        finally:
            os.close(theirs)  # the last end: the thread sees the end of the output
        return code, output.result().decode()


def _everything(terminal: IO[bytes]) -> bytes:
    found = b""
    with contextlib.suppress(OSError):  # EIO at the end
        while piece := terminal.read(1 << 16):
            found += piece
    return found


def start() -> None:
    """Start the program for this process, unless it runs."""
    _started(os.getpid())


def call(starter: int, words: Sequence[str], environment: Mapping[str, str], streams: Sequence[int]) -> int:
    """Let the program of the process ``starter`` run ``openstack WORDS``. Return the exit code.

    ``streams`` are the file descriptors for output and errors, or that of a terminal for everything.
    """
    with _socket() as caller:
        caller.settimeout(SECONDS)
        caller.connect(_address(starter))
        request = json.dumps([list(words), dict(environment)]).encode()
        socket.send_fds(caller, [request], streams)
        process = int(caller.recv(100))
        try:
            return int(caller.recv(100))
        except TimeoutError:
            os.kill(process, signal.SIGKILL)
            raise


def _text(stream: "tempfile._TemporaryFileWrapper[bytes]") -> str:
    stream.seek(0)
    return stream.read().decode()


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _address(starter: int) -> str:
    return f"\0zun-stock-client-{starter}"


@functools.cache
def _started(starter: int) -> None:
    """Start the program for the process ``starter``."""
    command = [sys.executable, "-m", __name__, str(starter)]
    program = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"ready\n", "the openstack client cannot be loaded: try 'openstack --version'"


class _Call(socketserver.BaseRequestHandler):
    """In the fork: read the request, answer with the id of this process, and with the exit code in the end."""

    def handle(self) -> None:
        request, streams, _flags, _sender = socket.recv_fds(self.request, 1 << 20, 2)
        words, environment = json.loads(request)
        self.request.send(str(os.getpid()).encode())
        os.environ.clear()
        os.environ.update(environment)
        if len(streams) == 1:
            os.setsid()
            fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
            streams = streams * 3
        for number, stream in enumerate(reversed(streams)):
            os.dup2(stream, 2 - number)
        for stream in {*streams} - {0, 1, 2}:
            os.close(stream)
        code = _client(words)
        sys.stdout.flush()
        sys.stderr.flush()
        self.request.send(str(code).encode())


def _client(words: Sequence[str]) -> int:
    from openstackclient import shell  # in the program alone

    try:
        return int(shell.main(list(words)) or 0)
    except SystemExit as exc:  # what its parser refuses
        return int(exc.code or 0)


class _Program(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    socket_type = socket.SOCK_SEQPACKET
    request_queue_size = 64

    def service_actions(self) -> None:
        super().service_actions()
        if os.getppid() != int(sys.argv[1]):
            raise SystemExit


def _serve() -> None:
    starter, sys.argv[0] = int(sys.argv[1]), "openstack"
    ready, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    _client(["help", "appcontainer", "run"])  # loads the plugins
    logging.getLogger().handlers.clear()  # each call adds its own
    with _Program(_address(starter), _Call) as program:
        os.write(ready, b"ready\n")
        os.close(ready)
        program.serve_forever()


if __name__ == "__main__":
    _serve()
