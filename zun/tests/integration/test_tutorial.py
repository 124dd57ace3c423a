# SPDX-License-Identifier: Apache-2.0
"""The commands of the page "From zero to a pinned container", with the real client, Docker and kernel."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from zun.tests.integration.programs import Api
from zun.topology import discover

pytestmark = pytest.mark.docker

PAGE = pathlib.Path(__file__).parents[3] / "doc/source/user/zero-to-pinned.rst"
ELSEWHERE = ("tools/demo.sh", "export ", "openstack appcontainer delete ")  # starting and ending: not on this machine


def steps():
    """Return each command of the page with the output that the page shows."""
    found = []
    for block in re.findall(r"^\.\. code-block:: console\n\n((?:   .*\n|\n)+)", PAGE.read_text(), re.MULTILINE):
        text = re.sub(r"^   ", "", block, flags=re.MULTILINE)
        found += re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
    return [(command, output) for command, output in found if not command.startswith(ELSEWHERE)]


def words(text):
    """Return the words of an output. Ids and numbers are of the machine."""
    return set(re.findall(r"\b[A-Za-z][a-z_]{2,}\b", text))


LARGEST = max(len(cell.cpus) for cell in discover().cells)
"""The CPUs of a cell: two on the machine of the page."""


@pytest.fixture
def machine(on_docker):
    """The all-in-one, running; its containers are removed at the end."""
    made = on_docker(DEFAULT={"maximum_cpus": LARGEST})
    made.start()
    yield made
    Api(made.url).delete_all()
    made.stop()


def test_the_page_shows_what_happens(machine):
    commands = steps()
    assert len(commands) > 10
    script = "".join(f"echo '@@@'\n{command}\n" for command, _ in commands)
    done = subprocess.run(
        ["bash"],
        input=re.sub(r"\bvm\b", machine.host, script.replace("--cpu 2 ", f"--cpu {LARGEST} ")),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            "OS_AUTH_TYPE": "none",
            "OS_ENDPOINT": machine.url,
            **{name: os.environ[name] for name in ("HOME", "PYTHONPATH", "DOCKER_HOST") if name in os.environ},
        },
        timeout=240,
    )
    said = done.stdout.split("@@@\n")[1:]
    for (command, output), real in zip(commands, said, strict=True):
        assert words(output) - {"vm"} <= words(real), f"{command}\n{real}"
    claim = dict(re.findall(r"(cpuset_\w+) +\| (\S+)", done.stdout))
    kernel = {"Cpus_allowed_list": claim["cpuset_cpus"], "Mems_allowed_list": claim["cpuset_mems"]}
    shown = [real for (command, _), real in zip(commands, said, strict=True) if "allowed_list" in command]
    inside, outside, _ = shown
    assert dict(re.findall(r"(\w+):\t(.*)", inside)) == kernel == dict(re.findall(r"(\w+):\t(.*)", outside))
