# SPDX-License-Identifier: Apache-2.0
"""Keep what else disturbs a CPU away from the CPUs of containers: interrupts, kernel workers, clock and sleep states.

It also gives containers what they share with nobody: CPUs (``partitions``), and parts of the L3 caches and of the
memory bandwidth (``ways`` decides, ``resctrl`` writes).

``rules`` says which value each file of the kernel is to have, from the claims of the host and nothing else.
``kernel_files`` writes these values, and gives each file the host's own value back. ``quiet`` puts both together.
"""
