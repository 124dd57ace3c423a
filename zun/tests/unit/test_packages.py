# SPDX-License-Identifier: Apache-2.0
"""The content of the wheel. tools/packages.py tries wheel and sdist on several Pythons."""

import configparser
import email
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

import zun

ROOT = pathlib.Path(zun.__file__).parents[1]
PACKAGES = ("zun", "zun_dashboard")
NEEDED = (
    "LICENSE", "README.rst", "pyproject.toml", "requirements.txt", "setup.cfg", "setup.py", "test-requirements.txt",
)  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a tree without git."""
    folder = tmp_path_factory.mktemp("packages")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / "tree" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in NEEDED:
        shutil.copy(ROOT / name, folder / "tree")
    command = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ".")
    done = subprocess.run(
        command, cwd=folder / "tree", env={**os.environ, "PBR_VERSION": "1.2.3"}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    with zipfile.ZipFile(made) as archive:
        yield archive


def test_wheel_has_each_file_but_the_tests(wheel):
    files = (path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.is_file())
    there = {path.relative_to(ROOT).as_posix() for path in files}
    wanted = {name for name in there if not name.startswith("zun/tests/") and "__pycache__" not in name}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == wanted


def test_metadata_names_pythons_licence_and_extras(wheel):
    told = email.message_from_bytes(wheel.read("zun-1.2.3.dist-info/METADATA"))
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(ROOT / "setup.cfg")
    pythons = [each.rpartition(" ")[2] for each in told.get_all("Classifier") if " :: Python :: 3." in each]
    assert (told["Requires-Python"], pythons) == (">=3.11", ["3.11", "3.12", "3.13", "3.14"])
    assert (told["License"], told.get_all("License-File")) == ("Apache-2.0", ["LICENSE"])
    assert set(told.get_all("Provides-Extra")) == {*setup["extras"], "test"}
    needs = [each for each in told.get_all("Requires-Dist") if "extra ==" not in each]
    lines = (line.partition("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines())
    assert len(needs) == len([line for line in lines if line])
