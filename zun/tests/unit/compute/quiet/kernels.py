# SPDX-License-Identifier: Apache-2.0
"""Made folders with the files of a kernel that keep CPUs quiet."""

from pathlib import Path

from zun.topology import CpuSet
from zun.topology.files import cpu_map

CPUS = 8


def write(root, path, text):
    file = Path(root, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def made(root, *, boot="one", irqs=(24, 26, 27)):
    """Make a machine of 8 CPUs with interrupts, workers, clocks and sleep states."""
    every = CpuSet(range(CPUS))
    write(root, "proc/sys/kernel/random/boot_id", boot)
    write(root, "sys/devices/system/cpu/online", str(every))
    write(root, "proc/irq/default_smp_affinity", cpu_map(every))
    write(root, "sys/devices/virtual/workqueue/cpumask", cpu_map(every))
    heading = " ".join(f"CPU{cpu}" for cpu in every)
    counts = " ".join("0" for _ in every)
    lines = [f"{irq}: {counts} PCI-MSI {irq}-edge dev{irq}" for irq in irqs]
    write(root, "proc/interrupts", "\n".join([heading, *lines]))
    for irq in irqs:
        write(root, f"proc/irq/{irq}/smp_affinity_list", str(every))
        Path(root, f"proc/irq/{irq}/dev{irq}").mkdir()
    for cpu in every:
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        clock = f"sys/devices/system/cpu/cpufreq/policy{cpu // 2 * 2}"
        write(root, f"{clock}/scaling_governor", "schedutil")
        write(root, f"{clock}/scaling_available_governors", "schedutil performance")
        write(root, f"{clock}/scaling_min_freq", "800000")
        write(root, f"{clock}/cpuinfo_min_freq", "800000")
        write(root, f"{clock}/cpuinfo_max_freq", "3600000")
        write(root, f"{clock}/energy_performance_preference", "balance_performance")
        write(root, f"{clock}/energy_performance_available_preferences", "performance balance_performance power")
        write(root, f"{folder}/power/pm_qos_resume_latency_us", "0")
        Path(root, folder, "cpufreq").symlink_to(f"../cpufreq/policy{cpu // 2 * 2}")
        for number, (name, latency) in enumerate((("POLL", 0), ("C1", 2), ("C6", 130))):
            write(root, f"{folder}/cpuidle/state{number}/name", name)
            write(root, f"{folder}/cpuidle/state{number}/latency", str(latency))


def values(root):
    """Return path -> text of every file that can be changed."""
    names = (
        "proc/irq/default_smp_affinity", "proc/irq/*/smp_affinity_list", "sys/devices/virtual/workqueue/cpumask",
        "sys/devices/system/cpu/cpufreq/*/scaling_*", "sys/devices/system/cpu/cpufreq/*/energy_performance_preference",
        "sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us",
    )  # fmt: skip
    found = [file for name in names for file in Path(root).glob(name)]
    return {str(file.relative_to(root)): file.read_text().strip() for file in found}
