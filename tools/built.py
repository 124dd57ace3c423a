# SPDX-License-Identifier: Apache-2.0
"""This checkout as a wheel has it, with parts of ``zun.topology`` compiled: prints the folder to import it from.

    PYTHONPATH=$(python tools/built.py) python -c "from zun.topology import plan"

The folder is ``built`` in ``.run``, or in ZUN_RUN_DIR; it is made anew, in half a minute, for other sources or another
Python.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN_DIR = Path(os.environ.get("ZUN_RUN_DIR") or ROOT / ".run")
FOLDER = RUN_DIR / "built"
LOG = RUN_DIR / "built.log"


def built() -> Path:
    """The folder. Raises SystemExit where this Python cannot compile."""
    stamp = FOLDER / "stamp"
    wanted = digest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"Building this checkout into {FOLDER} (half a minute; log: {LOG})", file=sys.stderr, flush=True)
        shutil.rmtree(FOLDER, ignore_errors=True)
        RUN_DIR.mkdir(parents=True, exist_ok=True)
        with LOG.open("w") as log:
            command = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(FOLDER), str(ROOT)]
            code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
        if code:
            sys.exit(f"pip could not build this checkout; the whole output is in {LOG}.")
        if not list(FOLDER.glob("zun/topology/*.so")):
            sys.exit(
                f"Nothing was compiled: this needs a C compiler and the headers of {sys.executable} (on Debian or "
                f"Ubuntu: sudo apt-get install gcc python3-dev); the whole output is in {LOG}."
            )
        stamp.write_text(wanted)
    return FOLDER


def digest() -> str:
    """Of the sources, of what tells how they are built, and of this Python."""
    found = hashlib.sha256(sys.version.encode())
    for path in [ROOT / "setup.py", ROOT / "setup.cfg", ROOT / "pyproject.toml", *sorted(ROOT.glob("zun/**/*.py"))]:
        found.update(b"%s\0%s\0" % (str(path.relative_to(ROOT)).encode(), path.read_bytes()))
    return found.hexdigest()


if __name__ == "__main__":
    print(built())
