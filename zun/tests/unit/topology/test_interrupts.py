# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.topology import CpuSet
from zun.topology.interrupts import Interrupts, count, interrupts

TEXT = """\
           CPU0       CPU2       CPU10
  9:          1          0         20   IO-APIC   9-fasteoi   acpi
 24:          3          4          0   PCI-MSI 65536-edge      nvme0q0 5 6 7
NMI:        100        100        100   Non-maskable interrupts
LOC:      50000      60000      70000   Local timer interrupts
ERR:          0
"""


ARM = """\
           CPU0       CPU1       CPU2       CPU3
 11:       7155       8882       7235       7791     GICv3  30 Level     arch_timer
 14:          9          9          9          9     GICv3  23 Level     arm-pmu
 15:          1          1          1          1     GICv3 1056 Level     arm-pmu
 17:          5          0          0          0     GICv3  32 Level     uart-pl011
 46:        120          0          0          0  ITS-PCI-MSI-0000:01:00.0   0 Edge      nvme0q0
IPI0:       644        322        111         99       Rescheduling interrupts
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
        pytest.param(ARM, {0: 125, 1: 0, 2: 0, 3: 0}, id="numbered-lines-of-arm-cpus"),
        pytest.param(
            "  CPU0 CPU1\n  5: 9 9 RISC-V INTC   5 Edge riscv-timer\n 11: 2 0 SiFive PLIC 11 Edge uart\n", {0: 2, 1: 0},
            id="risc-v",
        ),
        pytest.param(
            "  CPU0\n 16: 9 XICS 2 Edge IPI\n 17: 9 XIVE-IPI 0 Edge IPI-0\n 18: 3 XICS 17 Edge eth0\n", {0: 3},
            id="power",
        ),
        pytest.param("  CPU0\n 48: 9 xen-percpu -virq timer0\n 49: 4 xen-dyn -event eth0\n", {0: 4}, id="xen"),
        pytest.param("  CPU0\n  3: 9 CPUINTC 12 timer\n  4: 2 LIOINTC 3 serial\n", {0: 2}, id="loongarch"),
        pytest.param("  CPU0\n 25: 9 GIC-0 27 Level arch_timer\n 26: 1 GIC-0 65 Level mmc0\n", {0: 1}, id="older-gic"),
        pytest.param("  CPU0\n 23: 9 GICv3-23 0 Level arm-pmu\n 24: 1 GICv3 33 Level mmc0\n", {0: 1}, id="big-cores"),
        pytest.param("  CPU0\n 5: 9 GICv5-PPI 30 Level arch_timer\n 6: 1 GICv5-SPI 9 Level uart\n", {0: 1}, id="gicv5"),
        pytest.param("  CPU0\n 2: 9 AIC-FIQ 0 Level arch_timer\n 3: 1 AIC 605 Level uart\n", {0: 1}, id="apple"),
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


def test_interrupts_of_cpus_arrive_at_no_container(tmp_path):
    for number in (11, 14, 46):
        (tmp_path / f"proc/irq/{number}").mkdir(parents=True)
        (tmp_path / f"proc/irq/{number}/smp_affinity_list").write_text("0-1\n" if number == 46 else "0-3\n")
    (tmp_path / "proc/interrupts").write_text(ARM)
    assert interrupts(tmp_path).on(CpuSet("2-3")) == (0, CpuSet())
    assert interrupts(tmp_path).on(CpuSet("0-1")) == (125, CpuSet("46"))


def test_this_machine_counts_some():
    seen = interrupts()
    assert sum(seen.counted.values()) > 0 and sum(seen.network.values()) > 0
