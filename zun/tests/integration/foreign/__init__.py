# SPDX-License-Identifier: Apache-2.0
"""Programs that others wrote, each in a virtual environment of its own with the versions of its ``.txt`` file."""

import fcntl
import hashlib
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

_HERE = pathlib.Path(__file__).parent
#: PYTHONPATH with which a foreign program of this Python imports zun and its libraries
OURS = os.pathsep.join([str(_HERE.parents[3]), *(path for path in sys.path if path.endswith("site-packages"))])
_RUN = pathlib.Path(os.environ.get("ZUN_RUN_DIR") or _HERE.parents[3] / ".run")


def installed(name: str, prepare: Callable[[pathlib.Path], None] = lambda environment: None) -> pathlib.Path:
    """The folder of the environment ``name``, made at the first time, when ``prepare`` finishes it.

    Processes that run tests beside this one wait until the folder is made. Without the package index the test that asks
    is skipped; with ZUN_REQUIRE_FOREIGN=1 it fails.
    """
    required, folder = _HERE / f"{name}.txt", _RUN / "foreign" / name
    made_of = hashlib.sha256(f"{sys.version}{required.read_text()}".encode()).hexdigest()
    stamp, log = folder / "installed", folder.with_suffix(".log")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != made_of:
            _install(folder, required, log)
            prepare(folder)
            stamp.write_text(made_of)
    return folder


def _install(folder: pathlib.Path, required: pathlib.Path, log: pathlib.Path) -> None:
    with log.open("wb") as said:
        for words in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(folder / "bin/pip"), "install", "-q", "-r", str(required)],
        ):
            if subprocess.run(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=600).returncode:
                reason = f"{folder.name} could not be installed; see {log}"
                if os.environ.get("ZUN_REQUIRE_FOREIGN") == "1":
                    pytest.fail(reason)
                pytest.skip(reason)


def packages(environment: pathlib.Path) -> pathlib.Path:
    """Return the folder of the environment's packages."""
    (found,) = (environment / "lib").glob("python3*/site-packages")
    return found
