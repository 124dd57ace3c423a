# SPDX-License-Identifier: Apache-2.0
"""The units, as systemd itself reads them."""

import os
import pathlib
import shutil
import subprocess

import pytest

UNITS = sorted((pathlib.Path(__file__).parents[3] / "etc/systemd").iterdir())
VERIFY = shutil.which("systemd-analyze")


def verified(tmp_path, text):
    """Return what systemd-analyze says about a unit. The program of the unit need not be installed."""
    (tmp_path / "one.service").write_text(text.replace("ExecStart=/opt/zun/bin/", "ExecStart=/bin/true "))
    words = [VERIFY, "verify", "--man=no", "--recursive-errors=no", str(tmp_path / "one.service")]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_knows_every_line(tmp_path, unit):
    if VERIFY is None:
        assert os.environ.get("ZUN_REQUIRE_SYSTEMD") != "1", "systemd-analyze is not installed"
        pytest.skip("systemd-analyze is not installed")
    assert verified(tmp_path, unit.read_text()) == ""
    assert "Restrat" in verified(tmp_path, unit.read_text().replace("Restart=", "Restrat="))
