# SPDX-License-Identifier: Apache-2.0
"""Programs of this project, loaded once. Each start is a fork that runs ``main``, as a process of its own.

Loading a program takes one to three seconds of CPU time, a fork a hundredth of one. The process that loads and forks
is started by the first ``Fork`` and ends with the process that started it.
"""

import contextlib
import functools
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

PROGRAMS = ("allinone", "api", "broker_manage", "compute", "conductor", "db_manage", "scheduler", "wsproxy")
SECONDS = 300
_ONE_LOADER = threading.Lock()


class Fork:
    """A running ``python -m MODULE WORDS`` in a session of its own, with the methods of ``subprocess.Popen``.

    ``output`` is the file descriptor for its output and errors. The environment and the folder are those of now.
    """

    def __init__(self, module: str, words: Sequence[str], output: int) -> None:
        self.returncode: int | None = None
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps([module, list(words), dict(os.environ), os.getcwd()]).encode()
        with there, _ONE_LOADER:
            socket.send_fds(_loader(os.getpid()), [request], [there.fileno(), output])
        self._here.settimeout(SECONDS)
        self.pid = int(self._here.recv(100))

    def poll(self) -> int | None:
        """Return the exit code, or None while the program runs."""
        return self._ended(0)

    def wait(self, seconds: float) -> int:
        """Return the exit code. Raise TimeoutError if the program still runs after this time."""
        code = self._ended(seconds)
        if code is None:
            raise TimeoutError(f"process {self.pid} has not ended after {seconds} s")
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _ended(self, seconds: float) -> int | None:
        if self.returncode is None:
            self._here.settimeout(seconds)
            try:
                said = self._here.recv(100)
            except (BlockingIOError, TimeoutError):
                return None
            assert said, "the process that loads the programs has ended"
            self.returncode = int(said)
            self._here.close()
        return self.returncode


def run(module: str, words: Sequence[str], seconds: float) -> tuple[int, str]:
    """Run ``python -m MODULE WORDS`` and return its exit code and what it said. Kill it after ``seconds``."""
    with tempfile.TemporaryFile() as output:
        fork = Fork(module, words, output.fileno())
        try:
            code = fork.wait(seconds)
        except TimeoutError:
            fork.send_signal(signal.SIGKILL)
            raise
        output.seek(0)
        return code, output.read().decode()


@functools.cache
def _loader(_starter: int) -> socket.socket:
    """Start the process that loads the programs for this process. Return the socket that takes requests."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(there.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[there.fileno()],
        )
    here.settimeout(SECONDS)
    assert here.recv(100) == b"ready", "the programs cannot be loaded: try 'zun-allinone --version'"
    return here


def _serve(requests: socket.socket) -> str:
    """Fork for each request. Return in a fork, with the module that the fork runs; end when nobody asks any more."""
    running: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: process id, and whom to tell its exit code
    with selectors.DefaultSelector() as ready:
        ready.register(requests, selectors.EVENT_READ)
        while True:
            for key, _events in ready.select():
                if key.fileobj is not requests:
                    ready.unregister(key.fd)
                    process, caller = running.pop(key.fd)
                    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                    os.close(key.fd)
                    _tell(caller, code)
                    caller.close()
                    continue
                request, (told, output), _flags, _sender = _received(requests)
                caller = socket.socket(fileno=told)
                if (process := os.fork()) == 0:
                    for each in (requests, caller, *(other for _, other in running.values())):
                        each.close()
                    for pidfd in running:
                        os.close(pidfd)
                    return _become(*json.loads(request), output=output)
                os.close(output)
                _tell(caller, process)
                pidfd = os.pidfd_open(process)
                running[pidfd] = process, caller
                ready.register(pidfd, selectors.EVENT_READ)


def _received(requests: socket.socket) -> Any:
    received = socket.recv_fds(requests, 1 << 20, 2)
    if not received[0]:
        raise SystemExit
    return received


def _tell(caller: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # nobody wants to know
        caller.send(str(number).encode())


def _become(module: str, words: list[str], environment: dict[str, str], folder: str, output: int) -> str:
    """Make this process what ``python -m MODULE WORDS`` in a new session is before ``main``. Return the module."""
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *words]
    return module


def main() -> None:
    for name in PROGRAMS:
        importlib.import_module(f"zun.cmd.{name}")
    gc.collect()
    gc.freeze()  # collecting in a fork would copy the memory of what is loaded
    requests = socket.socket(fileno=int(sys.argv[1]))
    requests.send(b"ready")
    module = _serve(requests)
    importlib.import_module(module).main()


if __name__ == "__main__":
    main()
