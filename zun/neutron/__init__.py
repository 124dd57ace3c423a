# SPDX-License-Identifier: Apache-2.0
"""OpenStack Neutron: its HTTP API, and what follows from its ports. The API and the hosts use this package."""
