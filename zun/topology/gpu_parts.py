# SPDX-License-Identifier: Apache-2.0
"""Read the parts of a GPU that containers can have one by one: MIG instances (NVIDIA) and compute partitions (AMD).

A MIG instance is a compute instance of a GPU instance. The kernel tells both by the capabilities that give access:
``/proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access``, where 0 is the minor number of the GPU. No file tells the
profile and the UUID of an instance; NVML does (``zun.topology.nvml``).

The partitions of an AMD GPU are nodes of KFD: see ``zun.topology.kfd``.

Source: NVIDIA's MIG User Guide, "Device Nodes and Capabilities".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from zun.topology import kfd
from zun.topology.devices import Device, DeviceType
from zun.topology.files import Tree

_CAPABILITIES = "proc/driver/nvidia/capabilities"


def parts(tree: Tree, gpu: Device, gpus: Iterable[kfd.KfdGpu]) -> Iterator[Device]:
    """Yield the parts of ``gpu``, a PCI device as the machine has it. ``gpus`` are those that KFD shows.

    A part is a device of its own, with the cell, the memory node and the place of its GPU, and has no GPU links.
    """
    if gpu.type is DeviceType.VF:  # a device is a part of one other device at most
        return
    part = replace(gpu, type=DeviceType.PART, physical=gpu.address, interfaces=(), links=())
    file = f"/dev/nvidia{nvidia_minor(tree, gpu.address)}"
    for (instance, compute), files in mig_files(tree, gpu.address).items():
        address = mig_address(gpu.address, instance, compute)
        yield replace(part, address=address, nodes=(file, *files), resource_class=part_class("MIG", None))
    partitions = kfd.partitions(gpus, gpu.address) if gpu.driver == "amdgpu" else {}
    if len(partitions) < 2:
        return
    mode = kfd.partition_mode(tree, gpu.address)
    for number, minor in partitions.items():
        yield replace(
            part,
            address=f"{gpu.address}/xcp{number}",
            nodes=(f"/dev/dri/renderD{minor}",),
            profile=mode,
            resource_class=part_class("XCP", mode),
        )


def mig_address(gpu: str, instance: int, compute: int) -> str:
    """Return the address of a MIG instance, by the address of the GPU and the ids of GPU and compute instance."""
    return f"{gpu}/gi{instance}/ci{compute}"


def part_class(kind: str, profile: str | None) -> str:
    """Return the resource class of parts of this profile.

    Examples: ``CUSTOM_MIG_1G_10GB``, ``CUSTOM_MIG_1G_10GB_ME`` for ``1g.10gb+me``, ``CUSTOM_MIG_1G_24GB_NO_ME`` for
    ``1g.24gb-me``, ``CUSTOM_XCP_CPX_NPS4``; ``CUSTOM_MIG`` if the profile is unknown.
    """
    name = re.sub("[^A-Z0-9]+", "_", (profile or "").upper().replace("-", "_NO_"))
    return f"CUSTOM_{kind}_{name}".rstrip("_")


def nvidia_minor(tree: Tree, address: str) -> int | None:
    """Return the minor number of an NVIDIA GPU: 0 for ``/dev/nvidia0``. None if the driver does not tell."""
    told = tree.text(f"proc/driver/nvidia/gpus/{address}/information") or ""
    match = re.search(r"^Device Minor:\s*(\d{1,4})\s*$", told, re.MULTILINE)
    return None if match is None else int(match[1])


def mig_files(tree: Tree, address: str) -> dict[tuple[int, int], tuple[str, str]]:
    """Return by the ids of GPU instance and compute instance the two capability files of each MIG instance."""
    minor, found = nvidia_minor(tree, address), {}
    top = f"{_CAPABILITIES}/gpu{minor}/mig"
    for instance in tree.ids(top, "gi"):
        above = _capability(tree, f"{top}/gi{instance}")
        for compute in tree.ids(f"{top}/gi{instance}", "ci"):
            own = _capability(tree, f"{top}/gi{instance}/ci{compute}")
            if above is not None and own is not None:
                found[instance, compute] = above, own
    return found


def _capability(tree: Tree, folder: str) -> str | None:
    """Return the file that gives a capability, as ``/dev/nvidia-caps/nvidia-cap21``."""
    match = re.search(r"^DeviceFileMinor:\s*(\d{1,6})\s*$", tree.text(f"{folder}/access") or "", re.MULTILINE)
    return None if match is None else f"/dev/nvidia-caps/nvidia-cap{int(match[1])}"
