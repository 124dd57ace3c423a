# SPDX-License-Identifier: Apache-2.0
"""A benchmark as somebody runs it by hand."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

FOLDER = pathlib.Path(__file__).parents[2] / "benchmarks"


def run(name: str, results: pathlib.Path, *options: str, environment: Mapping[str, str] | None = None) -> Any:
    """Run ``benchmarks/NAME.py``, check that it succeeds and prints something, and return its ``--json`` file.

    Without ``environment`` it knows no service of the tests.
    """
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("ZUN_", "DOCKER_"))}
    command = [sys.executable, "-W", "ignore", str(FOLDER / f"{name}.py"), *options, "--json", str(results)]
    done = subprocess.run(
        command, env={**inherited, **(environment or {})}, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
    return json.loads(results.read_text(encoding="utf-8"))
