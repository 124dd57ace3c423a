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
REFUSED = "refused"
"""Name that a process gives itself when the kernel gave it all that is its own, and refused more."""
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


def pinning_itself() -> list[str]:
    """After a SIGUSR1 run on the lowest CPU alone, and stay."""
    program = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.sigwait([signal.SIGUSR1])
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
stay()
"""
    return ["python3", "-c", _TOUCH + program]


def clocking(mib: int) -> list[str]:
    """Touch ``mib`` MiB, and then all of it page by page for ever.

    The name of the process is the longest time in ms between two pages; a SIGUSR1 begins anew. Its own writing of the
    name does not count.
    """
    program = f"""
import signal
kept, gap = touch({mib}), 0
def anew(*_):
    global gap, last
    gap = 0
signal.signal(signal.SIGUSR1, anew)
while True:
    for page in range(0, {mib} << 20, 4096):
        if page % (1 << 22) == 0:
            open("/proc/self/comm", "w").write(f"gap {{gap * 1000:.0f}}")
            last = time.monotonic()
        kept[page] = 1
        now = time.monotonic()
        gap, last = max(gap, now - last), now
"""
    return ["python3", "-c", _TOUCH + program]


def growing(mib: int) -> list[str]:
    """Touch 64 MiB more and more until ``mib`` MiB are had, then stay."""
    return ["python3", "-c", f"{_TOUCH}\nkept = [touch(64) for _ in range({mib} // 64)]\nstay()"]


def writing(file: str, mib: int, more: int) -> list[str]:
    """Write ``mib`` MiB to a new file. Then write ``more`` MiB to another one, and be named by what came of that."""
    program = f"""
def write(name, mib):
    with open(name, "wb", buffering=0) as file:
        for _ in range(mib):
            assert file.write(page) == len(page)
write({file!r}, {mib})
try:
    write({file!r} + ".more", {more})
except (AssertionError, OSError):
    os.unlink({file!r} + ".more")
    open("/proc/self/comm", "w").write({REFUSED!r})
    time.sleep(100000)
stay()
"""
    return ["python3", "-c", _TOUCH + program]


_HUGE = """
import mmap, os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
SIZE, HUGETLB = 2 << 20, 0x40000
def huge(pages):
    area = mmap.mmap(-1, pages * SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | HUGETLB)
    touch(area, pages)
    return area
def huge_file(name, pages):
    file = os.open("/dev/hugepages/" + name, os.O_CREAT | os.O_RDWR)
    os.ftruncate(file, pages * SIZE)
    area = mmap.mmap(file, pages * SIZE)
    touch(area, pages)
    return area
def touch(area, pages):
    for number in range(pages):
        area[number * SIZE] = 1
def stay(name):
    open("/proc/self/comm", "w").write(name)
    time.sleep(100000)
def one_more():
    try:
        kept.append(huge(1))
    except OSError:
        return "refused"
    return "touched"
kept = []
"""
_ON_DEMAND = f"{_HUGE}\nsignal.sigwait([signal.SIGUSR1])\n"
def taking_pages(pages: int) -> list[str]:
    """After a SIGUSR1 take huge pages of 2 MiB, half of them from a file. Ask for one more. Stay.

    The limits of a container are set right after its start, and a program in the container may be faster.
    """
    first = pages // 2
    program = f"kept += [huge_file('file', {first}), huge({pages - first})] if {pages} else []\nstay(one_more())"
    return ["python3", "-c", _ON_DEMAND + program]


def taking_pages_on_each_cpu(pages: int) -> list[str]:
    """After a SIGUSR1 take ``pages`` huge pages of 2 MiB on each allowed CPU in turn, ask for one more, and stay."""
    program = f"""
for cpu in sorted(allowed := os.sched_getaffinity(0)):
    os.sched_setaffinity(0, {{cpu}})
    kept.append(huge_file(f"cpu{{cpu}}", {pages}))
os.sched_setaffinity(0, allowed)
stay(one_more())
"""
    return ["python3", "-c", _ON_DEMAND + program]


def stranger(pages: int) -> str:
    """Return a program for the host itself that takes huge pages, prints a line and stays."""
    return f"{_HUGE}\nkept.append(huge({pages}))\nprint('taken', flush=True)\ntime.sleep(100000)"


def several(processes: int) -> list[str]:
    """Return a command of ``processes`` processes that sleep."""
    return ["sh", "-c", "sleep 100000 & " * (processes - 2) + "sleep 100000"]


def busy(processes: int) -> list[str]:
    """Return a command of ``processes`` processes that want all the CPU time they can have."""
    return ["sh", "-c", "while :; do :; done & " * (processes - 1) + "while :; do :; done"]
