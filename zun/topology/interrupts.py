# SPDX-License-Identifier: Apache-2.0
"""Read device interrupts: the kernel's counts by CPU, and the CPUs where each interrupt may arrive.

Also the soft interrupts in which the kernel handles packets of the network.
Sources: proc(5) (``/proc/interrupts``, ``/proc/softirqs``), Documentation/core-api/irq/irq-affinity.rst, and for the
interrupts of CPUs Documentation/devicetree/bindings/interrupt-controller (arm,gic-v3.yaml, riscv,cpu-intc.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from zun.topology.cpuset import NO_CPUS, CpuSet

_OF_A_CPU = (
    (re.compile(r"GIC(-\d+|v\d)?"), (range(0, 32), range(1056, 1120))),
    (re.compile(r"GICv\d-\d+|GICv5-(PPI|IPI)|AIC-FIQ|bcm2836-(timer|pmu)"), ()),
    (re.compile(r"RISC-V|CPUINTC|XIVE-IPI|xen-percpu"), ()),
    (re.compile(r"XICS"), (range(2, 3),)),
)
"""Controller -> its hardware numbers that belong to each CPU, as timer, counters and calls between CPUs; empty for all.

Where only some CPUs have such an interrupt, as big cores, the number is in the name: ``GICv3-23 0 Level arm-pmu``.
They have lines with numbers in ``/proc/interrupts``, as devices do, but nobody can move them.
"""


@dataclass(frozen=True, slots=True)
class Interrupts:
    """The device interrupts of the machine since it started.

    ``counted`` maps each CPU to its count, ``allowed`` each interrupt number to the CPUs where it may arrive: those
    that were set last, and those of before until its controller has changed over. ``network`` maps each CPU to its
    count of soft interrupts for packets.
    """

    counted: Mapping[int, int]
    allowed: Mapping[int, CpuSet]
    network: Mapping[int, int] = field(default_factory=dict)

    def on(self, cpus: CpuSet) -> tuple[int, CpuSet]:
        """Return the count of interrupts on ``cpus``, and the numbers of the interrupts that may arrive there."""
        count = sum(self.counted.get(cpu, 0) for cpu in cpus)
        return count, CpuSet(number for number, allowed in self.allowed.items() if allowed & cpus)

    def network_on(self, cpus: CpuSet) -> int:
        """Return the count of soft interrupts for packets on ``cpus``."""
        return sum(self.network.get(cpu, 0) for cpu in cpus)


def interrupts(root: str | Path = "/") -> Interrupts:
    """Read the files under ``root``. The result is empty if they cannot be read."""
    text = _text(root, "interrupts")
    own = {int(name) for name, _, described in _lines(text) if name.isdecimal() and _is_of_a_cpu(described)}
    allowed = {number: cpus for number, cpus in _allowed(Path(root, "proc/irq")).items() if number not in own}
    return Interrupts(count(text), allowed, count_network(_text(root, "softirqs")))


def count(text: str) -> dict[int, int]:
    """Return the device interrupts by CPU from the text of ``/proc/interrupts``.

    Only lines that begin with a number belong to devices: ``24:  7  0  PCI-MSI eth0`` counts 7 on the first CPU. Lines
    like ``LOC:`` (timer) belong to the CPU itself, and so does ``11:  7  9  GICv3 30 Level arch_timer``.
    """
    return _count(text, lambda name, described: name.isdecimal() and not _is_of_a_cpu(described))


def count_network(text: str) -> dict[int, int]:
    """Return the soft interrupts for packets, in and out, by CPU from the text of ``/proc/softirqs``."""
    return _count(text, lambda name, described: name in ("NET_RX", "NET_TX"))


def _text(root: str | Path, name: str) -> str:
    try:
        return Path(root, "proc", name).read_text()
    except OSError:
        return ""


def _is_of_a_cpu(described: str) -> bool:
    """Return whether a line belongs to each CPU itself, by its words behind the counts: ``GICv3 30 Level arch_timer``.

    The words are controller, hardware number, kind and user.
    """
    words = described.split()
    hardware = next((int(word) for word in words[1:] if word.isdecimal()), None)
    for controller, numbers in _OF_A_CPU:
        if words and controller.fullmatch(words[0]):
            return not numbers or any(hardware in each for each in numbers)
    return False


def _cpus(text: str) -> list[int]:
    """Return the CPUs of the columns, by the heading: ``CPU0 CPU2``."""
    words = text.partition("\n")[0].split()
    return [int(word[3:]) for word in words if word.startswith("CPU") and word[3:].isdecimal()]


def _lines(text: str) -> Iterator[tuple[str, list[int], str]]:
    """Yield name, counts in the order of the columns, and further words of each line."""
    columns = len(_cpus(text))
    for line in text.splitlines()[1:]:
        name, _, rest = line.partition(":")
        words = rest.split()
        counts = [int(word) for word in takewhile(str.isdecimal, words[:columns])]
        yield name.strip(), counts, " ".join(words[columns:])


def _count(text: str, wanted: Callable[[str, str], bool]) -> dict[int, int]:
    cpus = _cpus(text)
    counted = dict.fromkeys(cpus, 0)
    for name, counts, described in _lines(text):
        for cpu, number in zip(cpus, counts, strict=False):
            counted[cpu] += number if wanted(name, described) else 0
    return counted


def _allowed(folder: Path) -> dict[int, CpuSet]:
    allowed = {}
    for each in folder.glob("[0-9]*"):
        try:
            asked = CpuSet((each / "smp_affinity_list").read_text().strip())
        except (OSError, ValueError):
            continue
        try:
            reached = CpuSet((each / "effective_affinity_list").read_text().strip())
        except (OSError, ValueError):  # not every controller tells
            reached = NO_CPUS
        allowed[int(each.name)] = asked | reached
    return allowed
