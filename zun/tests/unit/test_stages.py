# SPDX-License-Identifier: Apache-2.0
"""The stages of tools/test.sh, with programs that only print in the places of the engine and of pytest."""

import os
import pathlib
import shutil
import subprocess

import pytest

TOOLS = pathlib.Path(__file__).parents[3] / "tools"
ENGINE = '#!/usr/bin/env bash\n[ "$1" != fetch ] || exit 0\necho "engine $1 $ZUN_ENGINE_OPTIONS"\nshift\nexec "$@"\n'
COMMON = """
ROOT={root} RUN_DIR={root}/.run
say() {{ echo "$@"; }}
die() {{ echo "$@"; exit 1; }}
make_venv() {{ VENV={root}/venv; }}
need_packages() {{ :; }}
running() {{ :; }}
docker_answers() {{ :; }}
wait_until() {{ :; }}
"""


@pytest.fixture
def checkout(tmp_path: pathlib.Path) -> pathlib.Path:
    """Make a folder with tools/test.sh, and programs that print what they were asked for."""
    programs = {
        "tools/engine.sh": ENGINE,
        "tools/services.sh": "#!/bin/sh\n",
        "venv/bin/pytest": '#!/bin/sh\necho "pytest $@"\n',
    }
    for name, text in programs.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    shutil.copy(TOOLS / "test.sh", tmp_path / "tools")
    (tmp_path / "tools/common.sh").write_text(COMMON.format(root=tmp_path))
    return tmp_path


def stages(checkout: pathlib.Path, *names: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [checkout / "tools/test.sh", *names]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("sid", ["engine sid", "integration/container", "integration/test_networks.py"]),
        ("trixie-crun", ["--default-runtime=crun", "integration/container", "integration/test_networks.py"]),
        ("changes", ["integration/test_engine_changes.py"]),
    ],
)
def test_a_row_of_engines_runs_its_tests(checkout: pathlib.Path, row: str, words: list[str]) -> None:
    done = stages(checkout, "engines", ZUN_ENGINE_ROWS=row)
    assert [word for word in words if word not in done.stdout] == [] and done.returncode == 0, done.stdout + done.stderr


def test_a_podman_row_runs_the_contract_on_podman(checkout: pathlib.Path) -> None:
    done = stages(checkout, "engines", ZUN_ENGINE_ROWS="sid-podman", PODMAN_HOST="unix:///podman.sock")
    assert "pytest" in done.stdout and "container/test_contract.py" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0 and "test_networks.py" not in done.stdout


def test_a_row_that_does_not_exist_is_an_error(checkout: pathlib.Path) -> None:
    done = stages(checkout, "engines", ZUN_ENGINE_ROWS="buster")
    assert (done.returncode, "ZUN_ENGINE_ROWS=buster names no row" in done.stdout) == (1, True), done.stdout


def test_tests_that_wait_run_beside_others(checkout: pathlib.Path) -> None:
    """Here ``in_turn`` waits for the end of ``integration``. ``alone`` begins after both."""
    (checkout / "venv/bin/pytest").write_text(
        '#!/bin/sh\necho "begin $@" >> order\n'
        'case "$*" in *"slow and in_turn"*) until grep -q "end.*not in_turn" order; do :; done ;; esac\n'
        'echo "end $@" >> order; echo 1 passed\n'
    )
    done = stages(checkout, "unit", "integration")
    assert done.returncode == 0, done.stdout + done.stderr
    places = (("not in_turn", "integration"), ("slow and in_turn", "in_turn"), ("slow and alone", "alone"))
    order = []
    for line in (checkout / "order").read_text().splitlines():
        word, _, rest = line.partition(" ")
        order.append(f"{word} {next((name for text, name in places if text in rest), 'unit')}")
    assert order[-3:] == ["end in_turn", "begin alone", "end alone"]
    assert [f"passed  {name}" in done.stdout for name in ("unit", "in_turn", "integration", "alone")] == [True] * 4


def test_a_failure_beside_others_is_the_exit_status(checkout: pathlib.Path) -> None:
    (checkout / "venv/bin/pytest").write_text(
        '#!/bin/sh\ncase "$*" in *"slow and in_turn"*) echo 1 failed; exit 1 ;; esac\necho 1 passed\n'
    )
    done = stages(checkout, "integration")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED  in_turn" in done.stdout and "passed  alone" in done.stdout


@pytest.mark.parametrize("name", ["unit", "functional", "browser", "slow"])
def test_a_failed_stage_is_the_exit_status(checkout: pathlib.Path, name: str) -> None:
    (checkout / "venv/bin/pytest").write_text("#!/bin/sh\necho 1 failed; exit 1\n")
    done = stages(checkout, name)
    assert done.returncode == 1 and f"FAILED  {name}" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(("given", "absolute"), [(".run/py313", "{here}/.run/py313"), ("/else/../run", "/run")])
def test_a_folder_of_the_run_is_absolute(tmp_path: pathlib.Path, given: str, absolute: str) -> None:
    """apt looks for a relative path in its own folders, and a script that changes its folder in another."""
    script = f'set -eu; . {TOOLS}/common.sh; echo "$RUN_DIR"; cd /; sh -c \'echo "$ZUN_RUN_DIR"\''
    environment = {**os.environ, "ZUN_RUN_DIR": given}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == [absolute.format(here=tmp_path)] * 2, done.stderr
