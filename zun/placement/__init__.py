# SPDX-License-Identifier: Apache-2.0
"""OpenStack Placement: hosts, their cells and claims as resource providers and allocations.

The rows of containers decide who holds what. Placement is told (``reporter``), asked (mode ``enforce``) and compared.
``tree``, ``allocations`` and ``diff`` are pure; ``client`` talks HTTP.
"""
