# SPDX-License-Identifier: Apache-2.0
"""The client plugin as a distribution of its own, in an environment without the server."""

import pathlib
import subprocess
import sys
import zipfile

import pytest

from zun.tests.integration import foreign
from zun.tests.unit.entry_points import POINTS

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(900)]

ROOT = pathlib.Path(__file__).parents[3]
SERVER = {"alembic", "oslo.messaging", "oslo.db", "oslo.versionedobjects", "pecan", "pymysql", "sqlalchemy"}


def run(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT / "client"))
    (made,) = folder.glob("zun_osc-*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel):
    folder = foreign.installed("osc")
    run(str(folder / "bin/pip"), "install", "-q", "--no-deps", "--force-reinstall", str(wheel))
    return folder


def test_wheel_has_the_plugin_and_nothing_of_the_server(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {"/".join(name.split("/")[:2]) for name in names if name.startswith("zun/")} == {
        "zun/__init__.py", "zun/version.py", "zun/osc", "zun/nouns", "zun/topology"
    }  # fmt: skip
    folders = [ROOT / "zun" / name for name in ("osc", "nouns", "topology")]
    mine = {str(path.relative_to(ROOT)) for folder in folders for path in folder.rglob("*.py")}
    assert mine <= set(names)


def test_run_has_the_placement_options(environment):
    told = run(str(environment / "bin/openstack"), "appcontainer", "run", "--help")
    assert "--cpu-policy" in told and "Could not load" not in told


def test_every_command_of_the_plugin_can_be_loaded(environment):
    wanted = [point for point in POINTS if point.group == "openstack.extension"]
    load = (
        "from importlib.metadata import entry_points; "
        "print(len([each.load() for each in entry_points(group='openstack.extension') if each.module[:4] == 'zun.']))"
    )
    assert int(run(str(environment / "bin/python"), "-c", load)) == len(wanted)


def test_server_libraries_are_not_installed(environment):
    run(str(environment / "bin/pip"), "check")
    listed = run(str(environment / "bin/pip"), "list", "--format", "freeze")
    there = {line.partition("==")[0].lower().replace("_", ".").replace("-", ".") for line in listed.splitlines()}
    assert "zun.osc" in there and there & SERVER == set()
