# SPDX-License-Identifier: Apache-2.0
"""Terminals from the client's keyboard to a real container and back."""

import os
import pathlib
import re
import sys
import uuid

import pexpect
import pytest
from websockets.sync.client import connect

from zun.tests.fixtures import wait_for
from zun.tests.integration import stock_client
from zun.tests.integration.programs import Api

pytestmark = pytest.mark.docker

ENVIRONMENT = {name: text for name, text in os.environ.items() if not name.startswith("OS_")} | {"TERM": "dumb"}
PATIENCE = 120  # seconds for a client that starts on a loaded machine


@pytest.fixture
def allinone(on_docker):
    made = on_docker()
    made.api = Api(made.url)
    made.start()
    yield made
    made.api.delete_all()


def typed(url, *words):
    """The stock client with a keyboard and a screen of 100 by 30 characters."""
    program = pathlib.Path(sys.executable).with_name("openstack")
    return pexpect.spawn(
        str(program),
        ["--os-auth-type", "none", "--os-endpoint", url, "appcontainer", *words],
        timeout=PATIENCE,
        dimensions=(30, 100),
        env=ENVIRONMENT,
    )


def prompted(screen):
    """Wait for the shell. What is typed before the client has set up its terminal is thrown away."""
    screen.expect("connected to")

    def asked():
        screen.sendline("")
        return screen.expect(["# ", pexpect.TIMEOUT], timeout=1) == 0

    wait_for(asked, PATIENCE)


def test_run_interactive(allinone):
    name = f"c-{uuid.uuid4().hex[:8]}"
    screen = typed(allinone.url, "run", "--interactive", "--name", name, "zun-demo", "sh")
    prompted(screen)
    screen.sendline("echo $((6 * 7))")
    screen.expect(r"\D42\r\n")
    wait_for(lambda: resized(screen, 30, 100), PATIENCE)
    screen.setwinsize(40, 120)
    wait_for(lambda: resized(screen, 40, 120), PATIENCE)
    screen.sendline("exit 3")
    screen.expect(pexpect.EOF)
    screen.wait()
    wait_for(lambda: (allinone.api.get(f"/containers/{name}")["status_detail"] or "").startswith("Exited(3)"), 30)


def resized(screen, rows, columns):
    screen.sendline("stty size")
    return screen.expect([rf"\s{rows} {columns}\r\n", r"\s\d+ \d+\r\n"]) == 0


def test_exec_interactive(allinone):
    made = allinone.api.settled(allinone.api.run(cpu=0.5))
    screen = typed(allinone.url, "exec", "--interactive", made["uuid"], "sh")
    prompted(screen)
    screen.sendline("echo $((6 * 7)); tty")
    screen.expect(r"\D42\r\n")
    screen.expect("/dev/pts")
    screen.sendline("exit")
    screen.expect(pexpect.EOF)
    screen.wait()
    assert allinone.api.get(f"/containers/{made['uuid']}")["status"] == "Running"


@pytest.fixture
def running(allinone):
    return allinone.api.settled(allinone.api.run(cpu=0.5))["uuid"]


def ended(url, *words):
    """Return the output of the client on a terminal and its exit code. The client is loaded once for all calls."""
    arguments = ("--os-auth-type", "none", "--os-endpoint", url, "appcontainer", *words)
    code, shown = stock_client.run_on_terminal(arguments, ENVIRONMENT)
    return shown, code


def test_output_of_a_short_command_is_shown(allinone, running):
    """The command has ended when the client tells the size of its terminal, or not."""
    for _ in range(20):
        shown, code = ended(allinone.url, "exec", "--interactive", running, "echo", "hi")
        assert (shown.splitlines()[-1], code) == ("hi", 0), shown


def test_stock_client_shows_a_short_command(allinone, running, tmp_path):
    """python-zunclient without this project's commands."""
    program = tmp_path / "stock.py"
    program.write_text(
        "import sys\n"
        "from keystoneauth1 import noauth, session\n"
        "from zunclient import api_versions\n"
        "from zunclient.common.websocketclient import websocketclient\n"
        "from zunclient.v1 import client\n"
        "auth = noauth.NoAuth(endpoint=sys.argv[1])\n"
        "version = api_versions.APIVersion('1.40')\n"
        "zun = client.Client(session=session.Session(auth=auth), api_version=version)\n"
        "made = zun.containers.execute(sys.argv[2], command='echo hi', interactive=True, run=False)\n"
        "websocketclient.do_exec(zun, made['proxy_url'], sys.argv[2], made['exec_id'], '~', 0.5)\n"
    )
    for _ in range(10):
        screen = pexpect.spawn(
            sys.executable, [str(program), allinone.url, running], timeout=PATIENCE, dimensions=(30, 100)
        )
        screen.expect(pexpect.EOF)
        screen.wait()
        assert (screen.before.decode().splitlines()[-1], screen.exitstatus) == ("hi", 0), screen.before.decode()


@pytest.mark.parametrize(
    ("command", "codes", "last"),
    [
        (["sh", "-c", "exit 5"], {5}, None),
        # The codes and words are the engine's: rows execute-missing and execute-folder of reference/engines.csv.
        (["nosuchcmd"], {126, 127}, "nosuchcmd"),
        (["/tmp"], {126, 128}, "permi"),
        (["sh", "-c", "kill -9 $$"], {137}, None),
    ],
)
def test_exit_code(allinone, running, command, codes, last):
    """It is that of the same command without a terminal, and so is the message."""
    shown, there = ended(allinone.url, "exec", "--interactive", running, "--", *command)
    plain, without = ended(allinone.url, "exec", running, "--", *command)
    assert there == without and there in codes, shown
    if last is not None:
        assert plain.split()[-8:] == shown.split()[-8:] and last in plain


def test_attach_again_to_what_goes_on(allinone):
    made = allinone.api.settled(allinone.api.run(command=["sh"], interactive=True, tty=True))
    for number in range(2):
        screen = typed(allinone.url, "attach", made["uuid"])
        prompted(screen)
        screen.sendline(f'seen="${{seen}}{number}"; echo -$seen-')
        screen.expect("-" + "".join(map(str, range(number + 1))) + r"-\r\n")
        screen.close(force=True)
    assert allinone.api.get(f"/containers/{made['uuid']}")["status"] == "Running"


def test_a_megabyte_of_any_bytes(allinone):
    """Without a terminal in between nothing is translated, either way."""
    made = allinone.api.settled(allinone.api.run(command=["cat"], interactive=True))
    url = allinone.api.get(f"/containers/{made['uuid']}/attach")
    assert re.fullmatch(rf"ws://127\.0\.0\.1:\d+/\?token=[0-9a-f-]{{36}}&uuid={made['uuid']}", url)
    piece, heard = bytes(range(256)) * 256, b""
    with connect(url, max_size=None) as terminal:
        for number in range(1, 17):
            terminal.send(piece)
            while len(heard) < number * len(piece):
                heard += terminal.recv(timeout=PATIENCE)
    assert heard == piece * 16
