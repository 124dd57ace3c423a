# SPDX-License-Identifier: Apache-2.0
"""The report of a program at SIGUSR2."""

import os
import signal
import subprocess
import sys

from zun.tests.fixtures import wait_for

PROGRAM = """
from zun.cmd import program
program.configure("zun-test", [], database__connection="mysql+pymysql://zun:unspoken@db/zun")
program.wait_for_signal()
print("stopping")
"""


def catches(process, number):
    with open(f"/proc/{process.pid}/status") as lines:
        return int(next(line.split()[1] for line in lines if line.startswith("SigCgt")), 16) >> (number - 1) & 1


def test_report(tmp_path):
    log = tmp_path / "log"
    with log.open("w") as errors:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=errors, text=True)
    wait_for(lambda: catches(process, signal.SIGTERM), 60)

    def reports():
        return log.read_text().count("auth_encryption_key = ***")

    os.kill(process.pid, signal.SIGUSR2)
    wait_for(lambda: reports() == 1, 60)
    os.kill(process.pid, signal.SIGUSR2)
    wait_for(lambda: reports() == 2, 60)  # the first did not end the program
    said = log.read_text()
    assert "Guru Meditation" in said and "wait_for_signal" in said and "connection = ***" in said
    assert "unspoken" not in said
    os.kill(process.pid, signal.SIGTERM)
    assert process.communicate(timeout=60)[0].endswith("stopping\n") and process.returncode == 0
