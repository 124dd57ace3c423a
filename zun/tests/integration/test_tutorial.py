# SPDX-License-Identifier: Apache-2.0
"""The commands of the page "From zero to a pinned container", with the real client, Docker and kernel."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api, TokenApi
from zun.topology import discover

pytestmark = pytest.mark.docker

PAGE = pathlib.Path(__file__).parents[3] / "doc/source/user/zero-to-pinned.rst"
ELSEWHERE = ("tools/demo.sh", "export ", "openstack appcontainer delete ")  # starting and ending: not on this machine


def steps(cloud=False):
    """Return each command of the section on clouds, or of all others, with the output that the page shows."""
    found = []
    alone, shared = PAGE.read_text().split("\nIn a cloud\n==========\n")
    for block in re.findall(
        r"^\.\. code-block:: console\n\n((?:   .*\n|\n)+)", shared if cloud else alone, re.MULTILINE
    ):
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


def typed(machine, commands, identity):
    """Run the commands in one shell and return the output of each."""
    script = "".join(f"echo '@@@'\n{command}\n" for command in commands)
    done = subprocess.run(
        ["bash"],
        input=re.sub(r"\bvm\b", machine.host, script),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            **identity,
            **{name: os.environ[name] for name in ("HOME", "PYTHONPATH", "DOCKER_HOST") if name in os.environ},
        },
        timeout=240,
    )
    return done.stdout.split("@@@\n")[1:]


@pytest.mark.alone  # the page shows an audit that finds nothing
def test_the_page_shows_what_happens(machine):
    commands = steps()
    assert len(commands) > 10
    identity = {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": machine.url}
    said = typed(machine, [command.replace("--cpu 2 ", f"--cpu {LARGEST} ") for command, _ in commands], identity)
    for (command, output), real in zip(commands, said, strict=True):
        assert words(output) - {"vm"} <= words(real), f"{command}\n{real}"
    claim = dict(re.findall(r"(cpuset_\w+) +\| (\S+)", "".join(said)))
    kernel = {"Cpus_allowed_list": claim["cpuset_cpus"], "Mems_allowed_list": claim["cpuset_mems"]}
    shown = [real for (command, _), real in zip(commands, said, strict=True) if "allowed_list" in command]
    inside, outside, _ = shown
    assert dict(re.findall(r"(\w+):\t(.*)", inside)) == kernel == dict(re.findall(r"(\w+):\t(.*)", outside))


def test_the_page_shows_what_a_member_of_a_cloud_sees(on_docker, keystone):
    """A member with a password. The image is the one at hand, and the policy forbids members to say 'never pull'."""
    machine = on_docker(api={"auth_strategy": "keystone"}, keystone_authtoken=keystone.settings())
    machine.start()
    keystone.publish(machine.url)
    commands = steps(cloud=True)
    assert len(commands) == 3
    try:
        asked = [command.replace("busybox ", "zun-demo ") for command, _ in commands]
        said = typed(machine, asked, keystone.environment("member"))
    finally:
        member, admin = (TokenApi(machine.url, keystone.token(who)) for who in ("member", "admin"))
        for each in member.get("/containers")["containers"]:
            admin.request("DELETE", f"/containers/{each['uuid']}?force=true&all_projects=true")
        wait_for(lambda: not member.get("/containers")["containers"])
        keystone.retract()
        machine.stop()
    for (command, output), real in zip(commands, said, strict=True):
        assert words(output) - {"vm"} <= words(real), f"{command}\n{real}"
        assert machine.host not in real and "host  " not in real, real
