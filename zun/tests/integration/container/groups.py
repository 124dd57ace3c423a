# SPDX-License-Identifier: Apache-2.0
"""Read the control group of a process."""

import pathlib


def of_group(pid: int, controller: str, v1: str, v2: str) -> str:
    """Return the text of a file of the process' group, whose name depends on the version of control groups."""
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return pathlib.Path(f"/sys/fs/cgroup/{controller}{path}/{v1}").read_text().strip()
        if not controllers:
            unified = pathlib.Path(f"/sys/fs/cgroup{path}/{v2}")
            if unified.exists():
                return unified.read_text().strip()
    raise AssertionError(f"process {pid} has no control group for {controller}")
