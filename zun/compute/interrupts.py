# SPDX-License-Identifier: Apache-2.0
"""Interrupts of devices, by CPU: what the kernel counted, and where each may arrive.

Sources: proc(5) (``/proc/interrupts``), Documentation/core-api/irq/irq-affinity.rst.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zun.topology import CpuSet


@dataclass(frozen=True, slots=True)
class Interrupts:
    """``counted``: CPU -> interrupts of devices since the machine started. ``allowed``: number -> CPUs it may go to."""

    counted: Mapping[int, int]
    allowed: Mapping[int, CpuSet]

    def on(self, cpus: CpuSet) -> tuple[int, CpuSet]:
        """How many came to ``cpus``, and the numbers of those that may."""
        count = sum(self.counted.get(cpu, 0) for cpu in cpus)
        return count, CpuSet(number for number, allowed in self.allowed.items() if allowed & cpus)


def interrupts(root: str | Path = "/") -> Interrupts:
    """What the files under ``root`` tell; nothing where they cannot be read."""
    try:
        text = Path(root, "proc/interrupts").read_text()
    except OSError:
        text = ""
    counted = count(text)
    return Interrupts(counted, _allowed(Path(root, "proc/irq")))


def count(text: str) -> dict[int, int]:
    """Interrupts by CPU of a ``/proc/interrupts``.

    Only lines that begin with a number are devices': the others (timer, function calls, ...) are the CPU's own.
    """
    heading, *lines = text.splitlines() or [""]
    cpus = [int(word[3:]) for word in heading.split() if word.startswith("CPU") and word[3:].isdecimal()]
    counted = dict.fromkeys(cpus, 0)
    for line in lines:
        number, _, rest = line.partition(":")
        if not number.strip().isdecimal():
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
