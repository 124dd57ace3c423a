# SPDX-License-Identifier: Apache-2.0
"""A program that says how it was started, and then waits."""

import os
import signal
import sys


def main() -> None:
    open_files = [each for each in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{each}")]
    print(sys.argv[1:], os.environ["ZUN_TEST_SAYS"], os.getcwd(), os.getsid(0), len(open_files), flush=True)
    signal.pause()
