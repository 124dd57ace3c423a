# SPDX-License-Identifier: Apache-2.0
"""OpenStack Placement: hosts, their cells and claims as resource providers and allocations.

The rows of containers decide who holds what. ``ledger`` is what the compute service asks for. ``reporter`` runs one
thread that compares rows and Placement: ``host_providers`` reads and writes the providers, ``consumers`` writes the
allocations, ``others`` watches what other services have, and ``enforce`` is a claim of mode enforce. ``tree``,
``allocations``, ``foreign`` and ``diff`` are pure; ``client`` talks HTTP.
"""
