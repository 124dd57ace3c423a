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


@pytest.mark.parametrize("named", ["zun-services.Ab12Cd", "data", "zun-services.Ab12Cd/..", ""])
def test_only_a_folder_of_the_services_is_removed(tmp_path, named):
    kept = tmp_path / named
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "file").touch()
    (tmp_path / "services").mkdir()
    (tmp_path / "services/data").write_text(f"{tmp_path}/{named}\n")
    script = f"""
        SERVICES={tmp_path}/services
        die() {{ echo "$@"; exit 1; }}
        {function("remove_data")}
        remove_data
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=100)
    gone = named == "zun-services.Ab12Cd"
    assert (done.returncode, (kept / "file").exists()) == (0 if gone else 1, not gone), done.stdout


@pytest.mark.parametrize("suite", ["../../..", "trixie/../..", ".", "-rf"])
def test_an_engine_has_the_name_of_a_release(suite):
    """Its folder is removed before it is made."""
    script = pathlib.Path(__file__).parents[3] / "tools/engine.sh"
    check = next(line for line in script.read_text().splitlines() if "suite =~" in line)
    shell = f"die() {{ echo \"$@\"; exit 1; }}\nsuite={suite}\n{check}\necho made"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (1, f"SUITE must be the name of a release of Debian, got {suite}.\n")


# The plugin of devstack.

DEVSTACK = (pathlib.Path(__file__).parents[3] / "devstack/lib/zun").read_text()


def cleaned(tmp_path, folder, mounts, umount="false"):
    """Run remove_zun_state with these lines of the kernel's mounts. ``umount`` is run instead of the program."""
    (tmp_path / "mounts").write_text("".join(f"/dev/b {each} ext4 rw 0 0\n" for each in mounts))
    functions = (
        re.search(rf"^function {name} {{\n.*?^}}$", DEVSTACK, re.DOTALL | re.MULTILINE)[0]
        for name in ("remove_zun_state", "zun_mounts")
    )
    script = f"""
        ZUN_STATE_PATH={folder} ZUN_MOUNTS={tmp_path}/mounts
        sudo() {{ "$@"; }}
        umount() {{ echo "$1" >>{tmp_path}/asked; {umount}; }}
        die() {{ shift; echo "$@"; exit 1; }}
        {chr(10).join(functions)}
        remove_zun_state
    """
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("below", ["/volumes/local/1/0/fs", "/a\\040b", ""])
def test_devstack_removes_nothing_below_a_busy_volume(tmp_path, below):
    state = tmp_path / "state"
    state.mkdir()
    (state / "file").touch()
    (tmp_path / "link").symlink_to(state)  # the kernel lists the real path
    for folder in (state, tmp_path / "link"):
        done = cleaned(tmp_path, folder, ["/", f"{state}{below}", f"{state}-of-another"])
        assert done.returncode == 1 and f"Still mounted below {state}" in done.stdout
    assert (state / "file").exists()
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [f"{state}{below}".replace("\\040", " ")] * 2


def test_devstack_removes_the_state_when_nothing_is_mounted(tmp_path):
    (state := tmp_path / "state").mkdir()
    (tmp_path / "link").symlink_to(state)
    emptied = f": >{tmp_path}/mounts"
    done = cleaned(tmp_path, tmp_path / "link", [f"{state}/fs", f"{state}/fs/inner"], umount=emptied)
    assert done.returncode == 0 and not state.exists() and not (tmp_path / "link").is_symlink()
    assert (tmp_path / "asked").read_text().splitlines()[0] == f"{state}/fs/inner"


@pytest.mark.parametrize("folder", ["/", "''", "//"])
def test_devstack_never_removes_the_machine(tmp_path, folder):
    done = cleaned(tmp_path, folder, [])
    assert done.returncode == 1 and "ZUN_STATE_PATH must be a folder" in done.stdout
