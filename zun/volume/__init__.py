# SPDX-License-Identifier: Apache-2.0
"""Mounts of containers: one driver for each kind of mount, and the folders of a host that hold the data."""
