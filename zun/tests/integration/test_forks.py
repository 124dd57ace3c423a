# SPDX-License-Identifier: Apache-2.0
"""A forked program is like one that was started by itself."""

import os
import signal

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.forks import Fork


@pytest.fixture
def output(tmp_path):
    with (tmp_path / "output").open("w+b") as file:
        yield file


def said(output):
    output.seek(0)
    return output.read().decode()


@pytest.mark.parametrize(
    ("words", "code", "says"), [(["--version"], 0, ""), (["--nonsense"], 2, "unrecognized arguments: --nonsense")]
)
def test_exit_code_and_output_are_those_of_the_program(output, words, code, says):
    fork = Fork("zun.cmd.allinone", words, output.fileno())
    assert (fork.wait(60), fork.poll(), fork.wait(0)) == (code, code, code)
    assert says in said(output)


def test_a_killed_program_has_the_number_of_the_signal(output, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZUN_TEST_SAYS", "here")
    fork = Fork("zun.tests.integration.waiting", ["one", "two"], output.fileno())
    wait_for(lambda: said(output).endswith("\n"), 60)
    assert said(output).splitlines() == [f"['one', 'two'] here {tmp_path} {fork.pid} 3"]
    assert fork.poll() is None
    with pytest.raises(TimeoutError, match=rf"process {fork.pid} has not ended after 0\.1 s"):
        fork.wait(0.1)
    fork.send_signal(signal.SIGKILL)
    assert fork.wait(60) == -signal.SIGKILL
    fork.terminate()  # it is no process of ours any more
    with pytest.raises(ProcessLookupError):
        os.kill(fork.pid, 0)
