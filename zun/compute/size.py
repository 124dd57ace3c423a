# SPDX-License-Identifier: Apache-2.0
"""What of a container's size is to be changed, on its way from the API to the host."""

from collections.abc import Mapping
from typing import TypedDict


class Size(TypedDict, total=False):
    """What is None or left out stays as it is. ``memory`` is in MiB.

    ``keep_cpus``, in the kernel's list form, names those of its CPUs that it must keep. ``quota`` are the default
    limits of projects: OverQuota if it is more than the project may have when the change is written.
    """

    cpu: float | None
    memory: int | None
    cpu_policy: str | None
    keep_cpus: str
    quota: Mapping[str, int] | None
