# SPDX-License-Identifier: Apache-2.0
"""A stop must not be slept through, in whichever thread the kernel delivers it."""

import os
import signal
import subprocess
import sys

import pytest

# Delivers the signal to a thread that is not the main one, which the kernel may do at any time.
PROGRAM = """
import linecache, os, signal, sys, threading
from zun.cmd import program

def main_is_asleep():
    frame = sys._current_frames()[threading.main_thread().ident]
    with open(f"/proc/self/task/{os.getpid()}/stat") as stat:
        state = stat.read().rpartition(")")[2].split()[0]
    return state == "S" and "os.read(" in linecache.getline(frame.f_code.co_filename, frame.f_lineno)

def hit():
    while not main_is_asleep():
        pass
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    threading.Event().wait()

threading.Thread(target=hit, daemon=True).start()
program.wait_for_signal()
print("stopping")
"""


def test_a_signal_to_any_thread_stops_the_program():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "stopping\n"), done.stderr


# The signal arrives while the program says that it is ready.
AT_ONCE = """
import logging, os, signal
from zun.cmd import program

class Hit(logging.Handler):
    def emit(self, record):
        if "is ready" in record.getMessage():
            os.kill(os.getpid(), signal.SIGTERM)

logger = logging.getLogger("zun.cmd.program")
logger.setLevel(logging.INFO)
logger.addHandler(Hit())
program.wait_for_signal("it is ready on port %s", 1)
print("stopping")
"""


def test_a_ready_program_stops_in_order():
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "stopping\n"), done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(number):
    code = (
        "from zun.cmd import program\nprogram.wait_for_signal()\nprint('stopping', flush=True)\nprogram.os.read(0, 1)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", "print('go', flush=True)\n" + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"go\n"
    status = f"/proc/{process.pid}/status"
    caught = 0
    while not caught >> (number - 1) & 1:  # until its handler is there
        with open(status) as lines:
            caught = int(next(line.split()[1] for line in lines if line.startswith("SigCgt")), 16)
        if number == signal.SIGINT:
            # Python has a handler for it from the start; wait for the one that comes with SIGTERM's.
            caught &= 0 if not caught >> (signal.SIGTERM - 1) & 1 else -1
    os.kill(process.pid, number)
    assert process.stdout.readline() == b"stopping\n"
    os.kill(process.pid, number)
    assert process.wait(60) == -number
