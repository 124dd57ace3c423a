# SPDX-License-Identifier: Apache-2.0
"""Keep what else disturbs a CPU away from the CPUs of containers: interrupts, kernel workers, clock and sleep states.

``rules`` says which value each file of the kernel is to have, from the claims of the host and nothing else.
``kernel_files`` writes these values, and gives each file the host's own value back. ``quiet`` puts both together.
"""
