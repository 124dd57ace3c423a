# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.compute.interrupts import Interrupts, count, interrupts
from zun.topology import CpuSet

TEXT = """\
           CPU0       CPU2       CPU10
  9:          1          0         20   IO-APIC   9-fasteoi   acpi
 24:          3          4          0   PCI-MSI 65536-edge      nvme0q0 5 6 7
NMI:        100        100        100   Non-maskable interrupts
LOC:      50000      60000      70000   Local timer interrupts
ERR:          0
"""


SOFT = """\
                    CPU0       CPU2       CPU10
       TIMER:     378209     322116          1
      NET_TX:        100          0          2
      NET_RX:        200         20          7
"""


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        pytest.param(TEXT, {0: 4, 2: 4, 10: 20}, id="cpus-by-their-heading"),
        pytest.param("", {}, id="empty"),
        pytest.param("           CPU0\n  1:\n  2:  x\n", {0: 0}, id="short-lines"),
    ],
)
def test_devices_are_counted_and_the_cpus_own_are_not(text, counted):
    assert count(text) == counted


def test_read_from_files(tmp_path):
    (tmp_path / "proc/irq/9").mkdir(parents=True)
    (tmp_path / "proc/irq/24").mkdir()
    (tmp_path / "proc/irq/31").mkdir()
    (tmp_path / "proc/interrupts").write_text(TEXT)
    (tmp_path / "proc/softirqs").write_text(SOFT)
    (tmp_path / "proc/irq/9/smp_affinity_list").write_text("0-10\n")
    (tmp_path / "proc/irq/24/smp_affinity_list").write_text("2\n")
    (tmp_path / "proc/irq/default_smp_affinity").write_text("ffff\n")
    found = interrupts(tmp_path)
    packets = {0: 300, 2: 20, 10: 9}
    assert found == Interrupts({0: 4, 2: 4, 10: 20}, {9: CpuSet("0-10"), 24: CpuSet("2")}, packets)
    assert found.network_on(CpuSet("0-2")) == 320
    assert found.on(CpuSet("0,10-11")) == (24, CpuSet("9"))
    assert found.on(CpuSet("2")) == (4, CpuSet("9,24"))
    assert interrupts(tmp_path / "nothing") == Interrupts({}, {})


def test_this_machine_counts_some():
    seen = interrupts()
    assert sum(seen.counted.values()) > 0 and sum(seen.network.values()) > 0
