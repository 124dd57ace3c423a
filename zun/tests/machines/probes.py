# SPDX-License-Identifier: Apache-2.0
"""Programs that run inside containers of the image ``numaprobe`` (busybox and python3)."""

_TOUCH = """
import mmap, os, time
def touch(mib):
    area = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for _ in range(mib):
        area.write(page)
    return area
page = b"x" * (1 << 20)
def stay():
    open("/proc/self/comm", "w").write("touched")
    time.sleep(100000)
"""
TOUCHED = "touched"
"""Name that a process gives itself when it has touched all its memory."""

IDLE = ["sleep", "100000"]


def touching(mib: int) -> list[str]:
    """Touch ``mib`` MiB of anonymous memory and stay."""
    return ["python3", "-c", f"{_TOUCH}\nkept = touch({mib})\nstay()"]


def touching_on_each_cpu(mib: int) -> list[str]:
    """Go to each allowed CPU in turn, touch ``mib`` MiB there, and stay: after a SIGUSR1.

    Without one it may run where its container may, so that others can see that first.
    """
    program = f"""
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.sigwait([signal.SIGUSR1])
kept, allowed = [], os.sched_getaffinity(0)
for cpu in sorted(allowed):
    os.sched_setaffinity(0, {{cpu}})
    kept.append(touch({mib}))
os.sched_setaffinity(0, allowed)
stay()
"""
    return ["python3", "-c", _TOUCH + program]


def growing(mib: int) -> list[str]:
    """Touch 64 MiB more and more until ``mib`` MiB are had, then stay."""
    return ["python3", "-c", f"{_TOUCH}\nkept = [touch(64) for _ in range({mib} // 64)]\nstay()"]


def several(processes: int) -> list[str]:
    """So many processes that sleep."""
    return ["sh", "-c", "sleep 100000 & " * (processes - 2) + "sleep 100000"]
