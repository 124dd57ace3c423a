# SPDX-License-Identifier: Apache-2.0
"""A Placement that a test may kill, beside the one that everybody uses."""

import os
import pathlib
import signal
import subprocess

import requests

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import free_port

SERVER = pathlib.Path(__file__).parents[3] / "tools" / "serve_placement.py"


class OwnPlacement:
    """It has its configuration in ``folder`` and its data in the database at ``connection``."""

    def __init__(self, folder: pathlib.Path, python: str, connection: str) -> None:
        self._folder, port = folder, free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._command = [python, str(SERVER), str(port)]
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "placement.conf").write_text(
            "[api]\nauth_strategy = noauth2\n"
            f"[placement_database]\nconnection = {connection}\nsync_on_startup = true\n"
        )

    def start(self) -> None:
        """Return when it answers. Its database must be up."""
        environment = {**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(self._folder)}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        wait_for(self._answers)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()[-3000:]
        try:
            return requests.get(self.url, timeout=5).ok
        except requests.exceptions.RequestException:
            return False

    def stop(self) -> None:
        """End it as an operator does: requests under way are answered."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it as a crash does: what was committed has no answer."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None
