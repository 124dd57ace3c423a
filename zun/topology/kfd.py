# SPDX-License-Identifier: Apache-2.0
"""Read the AMD GPUs of a machine from the kernel's KFD: their partitions, and the links between GPUs.

Each node of ``/sys/class/kfd/kfd/topology`` is a GPU, one partition of a GPU, or the CPUs of a cell. Its folders
``io_links`` and ``p2p_links`` have a folder with the file ``properties`` for each link to another node.

Sources: the kernel's drivers/gpu/drm/amd/amdkfd/kfd_topology.c (nodes, files), kfd_crat.h (types of links) and
kfd_crat.c (weights); drivers/gpu/drm/amd/amdgpu/amdgpu_gfx.c (``current_compute_partition``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from zun.topology.files import Tree

_TOP = "sys/class/kfd/kfd/topology/nodes"
_PCI = "sys/bus/pci/devices"
_IN_PIECES = re.compile("[A-RT-Z]PX")
"""The modes of an AMD GPU in partitions: DPX (two), TPX, QPX and CPX. SPX is the GPU in one piece."""
_XGMI = 11
"""The type of a link between GPUs. PCI Express is 2; the other types do not join GPUs of one machine."""
_ONE_LINK, _BETWEEN_PACKAGES = 15, 41
"""Weights of links without another GPU on their way: one xGMI link, and one xGMI link between two packages of CPU and
GPU (13 + 15 + 13). A link inside a package weighs 13, an unknown one 0, and two xGMI links in a row 30."""


class KfdGpu(NamedTuple):
    """A node of KFD that is a GPU, or one partition of a GPU."""

    node: int
    address: str
    """The PCI address of the GPU, as ``0000:0c:00.0``. The partitions of a GPU share the address."""
    render_minor: int
    """The number of the file ``/dev/dri/renderD128``; 0 if unknown."""
    part: int = 0
    """The number of the partition. A GPU in one piece is partition 0."""


def read_gpus(tree: Tree) -> Iterator[KfdGpu]:
    """Yield the GPUs and partitions that KFD shows, in order of their nodes.

    The nodes name the GPU by ``domain`` and ``location_id``: bus and function in bits 0 to 15, and the partition in
    bits 28 to 31. Linux before 6.9 adds the partition to the function. Of CPUs both ``location_id`` and
    ``drm_render_minor`` are 0.
    """
    for node in tree.ids(_TOP, ""):
        facts = _facts(tree, f"{_TOP}/{node}/properties")
        place, minor = facts.get("location_id", 0), facts.get("drm_render_minor", 0)
        if place or minor:
            slot = f"{facts.get('domain', 0):04x}:{place >> 8 & 0xff:02x}:{place >> 3 & 0x1f:02x}"
            function, part = place & 7, place >> 28 & 0xF
            if not tree.names(f"{_PCI}/{slot}.{function}") and partition_mode(tree, f"{slot}.0") is not None:
                function, part = 0, function
            yield KfdGpu(node, f"{slot}.{function}", minor, part)


def partitions(gpus: Iterable[KfdGpu], address: str) -> dict[int, int]:
    """Return the number of the render node of each partition of the GPU, in order of the partitions."""
    found = {gpu.part: gpu.render_minor for gpu in gpus if gpu.address == address and gpu.render_minor}
    return dict(sorted(found.items()))


def partition_mode(tree: Tree, address: str) -> str | None:
    """Return how an AMD GPU is divided, as ``cpx_nps4``. None if the GPU is in one piece, or does not tell."""
    compute, memory = (tree.text(f"{_PCI}/{address}/current_{kind}_partition") for kind in ("compute", "memory"))
    if compute is None or not _IN_PIECES.fullmatch(compute):
        return None
    return (f"{compute}_{memory}" if re.fullmatch(r"NPS\d", memory or "") else compute).lower()


def links(tree: Tree, gpus: Iterable[KfdGpu]) -> dict[str, frozenset[str]]:
    """Return the GPUs that xGMI joins directly to each GPU, by PCI addresses. A GPU without such a link is left out.

    A link of a partition counts for its GPU. KFD also shows GPUs that are reached through another GPU; they do not
    count.
    """
    places = {gpu.node: gpu.address for gpu in gpus}
    found: dict[str, set[str]] = {}
    for node in places:
        for folder in (f"{_TOP}/{node}/{kind}" for kind in ("io_links", "p2p_links")):
            for number in tree.ids(folder, ""):
                link = _facts(tree, f"{folder}/{number}/properties")
                one, other = places.get(link.get("node_from", node)), places.get(link.get("node_to", -1))
                if _is_direct(link) and one and other and one != other:
                    found.setdefault(one, set()).add(other)
                    found.setdefault(other, set()).add(one)
    return {address: frozenset(others) for address, others in found.items()}


def _is_direct(link: Mapping[str, int]) -> bool:
    weight = link.get("weight", 0)
    return link.get("type") == _XGMI and (weight <= _ONE_LINK or weight == _BETWEEN_PACKAGES)


def _facts(tree: Tree, path: str) -> Mapping[str, int]:
    """Return the lines ``name number`` of a file by their names. Lines of another form are left out."""
    lines = (tree.text(path) or "").splitlines()
    matches = (re.fullmatch(r"(\w+) +(\d{1,19})", line.strip()) for line in lines)
    return {match[1]: int(match[2]) for match in matches if match}
