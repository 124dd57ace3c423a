# SPDX-License-Identifier: Apache-2.0
"""Read device interrupts: the kernel's counts by CPU, and the CPUs where each interrupt may arrive.

Also the soft interrupts in which the kernel handles packets of the network.
Sources: proc(5) (``/proc/interrupts``, ``/proc/softirqs``), Documentation/core-api/irq/irq-affinity.rst.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zun.topology import CpuSet


@dataclass(frozen=True, slots=True)
class Interrupts:
    """The device interrupts of the machine since it started.

    ``counted`` maps each CPU to its count, ``allowed`` each interrupt number to the CPUs where it may arrive.
    ``network`` maps each CPU to its count of soft interrupts for packets.
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
    counted, network = count(_text(root, "interrupts")), count_network(_text(root, "softirqs"))
    return Interrupts(counted, _allowed(Path(root, "proc/irq")), network)


def count(text: str) -> dict[int, int]:
    """Return the device interrupts by CPU from the text of ``/proc/interrupts``.

    Only lines that begin with a number belong to devices: ``24:  7  0  PCI-MSI eth0`` counts 7 on the first CPU. Lines
    like ``LOC:`` (timer) belong to the CPU itself.
    """
    return _count(text, str.isdecimal)


def count_network(text: str) -> dict[int, int]:
    """Return the soft interrupts for packets, in and out, by CPU from the text of ``/proc/softirqs``."""
    return _count(text, {"NET_RX", "NET_TX"}.__contains__)


def _text(root: str | Path, name: str) -> str:
    try:
        return Path(root, "proc", name).read_text()
    except OSError:
        return ""


def _count(text: str, wanted: Callable[[str], bool]) -> dict[int, int]:
    heading, *lines = text.splitlines() or [""]
    cpus = [int(word[3:]) for word in heading.split() if word.startswith("CPU") and word[3:].isdecimal()]
    counted = dict.fromkeys(cpus, 0)
    for line in lines:
        name, _, rest = line.partition(":")
        if not wanted(name.strip()):
            continue
        for cpu, word in zip(cpus, rest.split(), strict=False):
            if not word.isdecimal():
                break
            counted[cpu] += int(word)
    return counted


def _allowed(folder: Path) -> dict[int, CpuSet]:
    allowed = {}
    for each in folder.glob("[0-9]*"):
        try:
            allowed[int(each.name)] = CpuSet((each / "smp_affinity_list").read_text().strip())
        except (OSError, ValueError):
            continue
    return allowed
