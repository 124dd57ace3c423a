# SPDX-License-Identifier: Apache-2.0
"""The control group of a container that has a cpuset partition to itself."""

from zun.topology.sysfs import PARTITION


def slice_of(uuid: str) -> str:
    """Return the systemd slice of a container's partition. A dash in a name would put one slice below another."""
    return f"{PARTITION}{uuid.replace('-', '')}.slice"
