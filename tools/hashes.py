#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the files of tested versions with the hashes of their archives, from upper-constraints.txt.

    tools/hashes.py

requirements-hashed.txt has what the product, its client and a build need, test-requirements-hashed.txt also what
the tests and the documentation need. The tool needs ``uv`` (pip install uv) and the package index. Run it after each
change of a requirement or of upper-constraints.txt; a test compares the files.
"""

import itertools
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PRODUCT, TESTS = ROOT / "requirements-hashed.txt", ROOT / "test-requirements-hashed.txt"
HEAD = "# Written by tools/hashes.py from upper-constraints.txt.  pip install --require-hashes -r {name}\n"
BUILD = ("setuptools>=78.1.1", "pbr>=6.1")  # build-system.requires of pyproject.toml


def client() -> list[str]:
    """Return the requirements of the extra ``client``."""
    lines = (ROOT / "setup.cfg").read_text().partition("\nclient =\n")[2].splitlines()
    entries = itertools.takewhile(lambda line: line.startswith("    "), lines)
    return [line.partition("#")[0].strip() for line in entries]


def resolve(file: pathlib.Path, folder: pathlib.Path, *requirements: str) -> None:
    """Write ``file`` with the tested versions of what ``requirements``, the client and a build need."""
    made, named, constraints = (folder / name for name in ("made.txt", "named.in", "constraints.txt"))
    constraints.write_text((ROOT / "upper-constraints.txt").read_text().replace("===", "=="))
    named.write_text("\n".join([*BUILD, *client(), ""]))
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
    command += ["--no-annotate", "--no-header", "--constraints", str(constraints)]
    subprocess.run([*command, "--output-file", str(made), str(named), *requirements], cwd=ROOT, check=True)
    file.write_text(HEAD.format(name=file.name) + made.read_text())
    made.unlink()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        resolve(PRODUCT, folder, "requirements.txt")
        resolve(TESTS, folder, "requirements.txt", "test-requirements.txt", "doc/requirements.txt")


if __name__ == "__main__":
    main()
