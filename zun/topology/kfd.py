# SPDX-License-Identifier: Apache-2.0
"""Read the AMD GPUs of a machine from the kernel's KFD: their partitions, and the links between GPUs.

Each node of ``/sys/class/kfd/kfd/topology`` is a GPU, one partition of a GPU, or the CPUs of a cell. Its folders
``io_links`` and ``p2p_links`` have a folder with the file ``properties`` for each link to another node.

Sources: the kernel's drivers/gpu/drm/amd/amdkfd/kfd_topology.c (nodes, files), kfd_crat.h (types of links) and
kfd_crat.c (weights).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from zun.topology.files import Tree

_TOP = "sys/class/kfd/kfd/topology/nodes"
_XGMI = 11
"""The type of a link between GPUs. PCI Express is 2; the other types do not join GPUs of one machine."""
_DIRECT = frozenset((0, 13, 15, 41))
"""Weights of a link without another GPU on its way: unknown, inside a package, one xGMI link, and one xGMI link between
two packages of CPU and GPU (13 + 15 + 13). Two xGMI links in a row weigh 30."""


class KfdGpu(NamedTuple):
    """A node of KFD that is a GPU, or one partition of a GPU."""

    node: int
    address: str
    """The PCI address of the GPU, as ``0000:0c:00.0``. The partitions of a GPU share the address."""
    render_minor: int
    """The number of the file ``/dev/dri/renderD128``; 0 if unknown."""


def gpus(tree: Tree) -> Iterator[KfdGpu]:
    """Yield the GPUs and partitions that KFD shows, in order of their nodes.

    The nodes name the GPU by ``domain`` and ``location_id``: bus and function in bits 0 to 15, and the partition in
    bits 28 to 31. Of CPUs both ``location_id`` and ``drm_render_minor`` are 0.
    """
    for node in tree.ids(_TOP, ""):
        facts = _facts(tree, f"{_TOP}/{node}/properties")
        place, minor = facts.get("location_id", 0), facts.get("drm_render_minor", 0)
        if place or minor:
            slot = f"{place >> 8 & 0xff:02x}:{place >> 3 & 0x1f:02x}.{place & 7}"
            yield KfdGpu(node, f"{facts.get('domain', 0):04x}:{slot}", minor)


def links(tree: Tree) -> dict[str, frozenset[str]]:
    """Return the GPUs that xGMI joins directly to each GPU, by PCI addresses. A GPU without such a link is left out.

    A link of a partition counts for its GPU. KFD also shows GPUs that are reached through another GPU; they do not
    count.
    """
    places = {gpu.node: gpu.address for gpu in gpus(tree)}
    found: dict[str, set[str]] = {}
    for node in places:
        for folder in (f"{_TOP}/{node}/{kind}" for kind in ("io_links", "p2p_links")):
            for number in tree.ids(folder, ""):
                link = _facts(tree, f"{folder}/{number}/properties")
                one, other = places.get(link.get("node_from", node)), places.get(link.get("node_to", -1))
                if link.get("type") == _XGMI and link.get("weight", 0) in _DIRECT and one and other and one != other:
                    found.setdefault(one, set()).add(other)
                    found.setdefault(other, set()).add(one)
    return {address: frozenset(others) for address, others in found.items()}


def _facts(tree: Tree, path: str) -> Mapping[str, int]:
    """Return the lines ``name number`` of a file by their names. Lines of another form are left out."""
    lines = (tree.text(path) or "").splitlines()
    matches = (re.fullmatch(r"(\w+) +(\d{1,19})", line.strip()) for line in lines)
    return {match[1]: int(match[2]) for match in matches if match}
