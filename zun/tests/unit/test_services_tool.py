# SPDX-License-Identifier: Apache-2.0
"""Functions of tools/services.sh, run by bash."""

import pathlib
import re
import subprocess

import pytest

SCRIPT = (pathlib.Path(__file__).parents[3] / "tools/services.sh").read_text()


def function(name):
    return re.search(rf"^{name}\(\) {{\n.*?^}}$", SCRIPT, re.DOTALL | re.MULTILINE)[0]


@pytest.mark.parametrize(
    ("packages", "installs"),
    [("first==1", False), ("first==1 other19999==1", False), ("first==2", True), ("first==1 second==1", True)],
)
def test_packages_that_are_there_are_not_installed_again(tmp_path, packages, installs):
    """pip's list is longer than a pipe: a reader that stops at the first match would end pip with an error."""
    (tmp_path / "apart/bin").mkdir(parents=True)
    freeze = "#!/bin/sh\necho first==1; i=0; while [ $i -lt 20000 ]; do echo other$i==1; i=$((i+1)); done\n"
    for name, text in (("python", "#!/bin/sh\n"), ("pip", freeze)):
        (tmp_path / "apart/bin" / name).write_text(text)
        (tmp_path / "apart/bin" / name).chmod(0o755)
    script = f"""
        set -euo pipefail
        RUN_DIR={tmp_path}
        say() {{ echo "$@"; exit; }}
        {function("install_apart")}
        install_apart apart {packages}
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout.startswith(f"Installing {packages}")) == (0, installs), done.stderr
