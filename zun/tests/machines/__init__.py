# SPDX-License-Identifier: Apache-2.0
"""Proofs on a machine with several memory nodes. How to get one: doc/source/contributor/numa-machine.rst."""
