# SPDX-License-Identifier: Apache-2.0
"""Sizes in bytes."""

MIB = 1 << 20
GIB = 1 << 30
MIB_PER_GIB = GIB // MIB
