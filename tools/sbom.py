#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write an SBOM (CycloneDX, JSON) of the built wheel and of all that it needs, in the tested versions.

    tools/sbom.py [--python PYTHON] FILE

The tool builds the wheel, installs it into a new virtual environment from archives with the known hashes
(requirements-hashed.txt), and lists what is installed there, with licences and dependencies. With --python it lists
that environment instead. Needs ``cyclonedx-py`` (pip install cyclonedx-bom).
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[1]


def installed(folder: pathlib.Path) -> pathlib.Path:
    """Return the Python of a new environment in ``folder`` with the built wheel."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv/bin/python"
    pip = [str(python), "-m", "pip", "-q"]
    subprocess.run([*pip, "install", "--require-hashes", "-r", str(ROOT / "requirements-hashed.txt")], check=True)
    build = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = folder.glob("zun-*.whl")
    subprocess.run([*pip, "install", "--no-deps", str(wheel)], check=True)
    return python


def write(python: pathlib.Path, file: pathlib.Path) -> None:
    """Write the SBOM of an environment to ``file``; the same environment gives the same bytes."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--no-validate"]
    subprocess.run([*command, "--of", "JSON", "-o", str(file), str(python)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--python", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(arguments.python or installed(pathlib.Path(folder)), arguments.file)


if __name__ == "__main__":
    main()
