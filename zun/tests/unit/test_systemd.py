# SPDX-License-Identifier: Apache-2.0
"""The units, the drop-ins of the pages and the rotation of logs, as systemd and logrotate read them."""

import getpass
import grp
import os
import pathlib
import re
import subprocess

import pytest

from zun.tests.unit.of_the_system import program

ROOT = pathlib.Path(__file__).parents[3]
UNITS = sorted((ROOT / "etc/systemd").iterdir())
WITHOUT_ROOT = [each for each in UNITS if each.stem != "zun-compute"]
CAPTION = r"\.\. code-block:: ini\n +:caption: /etc/systemd/system/(\S+)\.d/(\S+)\n\n((?: {3,}.*\n|\n)+)"
DROP_INS = [
    pytest.param(unit, "\n".join(line.strip() for line in text.splitlines()), id=f"{unit}-{name}")
    for page in sorted((ROOT / "doc/source").rglob("*.rst"))
    for unit, name, text in re.findall(CAPTION, page.read_text())
]


@pytest.fixture
def verified(tmp_path):
    """Return what systemd-analyze says about a unit with a drop-in. The program of the unit need not be installed."""
    systemd = program("systemd-analyze")

    def analyze(unit, drop_in=""):
        for path, text in (("one.service", unit), ("one.service.d/own.conf", drop_in)):
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text.replace("ExecStart=/opt/zun/bin/", "ExecStart=/bin/true "))
        words = [systemd, "verify", "--man=no", "--recursive-errors=no", str(tmp_path / "one.service")]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    return analyze


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_knows_every_line(verified, unit):
    assert verified(unit.read_text()) == ""
    assert "Restrat" in verified(unit.read_text().replace("Restart=", "Restrat="))


def test_units_without_root_have_the_same_restrictions():
    assert len({unit.read_text().partition("\nNoNewPrivileges=")[2] for unit in WITHOUT_ROOT}) == 1


@pytest.mark.parametrize("unit", WITHOUT_ROOT, ids=lambda unit: unit.name)
def test_units_without_root_have_little_exposure(unit):
    rate = [program("systemd-analyze"), "security", "--offline=yes", "--threshold=20", str(unit)]
    done = subprocess.run(rate, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("unit", "drop_in"), DROP_INS)
def test_systemd_knows_every_line_of_a_drop_in(verified, unit, drop_in):
    text = (ROOT / "etc/systemd" / unit).read_text()
    assert verified(text, drop_in) == ""
    assert "Unknown key" in verified(text, drop_in.replace("[Service]\n", "[Service]\nExceStart=/bin/true\n"))


def test_drop_ins_of_the_pages_are_found():
    assert {each.values[0] for each in DROP_INS} == {"zun-api.service", "zun-compute.service"}


def test_logs_are_rotated_and_programs_go_on_writing(tmp_path):
    rotate = program("logrotate")
    shipped = (ROOT / "etc/logrotate.d/zun").read_text()
    own = f"su {getpass.getuser()} {grp.getgrgid(os.getgid()).gr_name}"
    assert "su root zun" in shipped and "/var/log/zun" in shipped
    changed = shipped.replace("su root zun", own).replace("/var/log/zun", str(tmp_path))
    (tmp_path / "rotation").write_text(changed)
    (tmp_path / "rotation").chmod(0o644)
    with (tmp_path / "zun-api.log").open("ab", buffering=0) as log:
        for line in (b"first\n", b"second\n", b"third\n"):
            log.write(line)
            command = [rotate, "--force", "--state", str(tmp_path / "state"), str(tmp_path / "rotation")]
            done = subprocess.run(command, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "zun-api.log").read_bytes() == b""
    assert (tmp_path / "zun-api.log.1").read_bytes() == b"third\n"
    assert (tmp_path / "zun-api.log.2.gz").exists()
