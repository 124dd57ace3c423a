# SPDX-License-Identifier: Apache-2.0
"""Huge pages that the operator keeps for the host's own programs: ``[compute] reserved_huge_pages``, in Nova's form."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from oslo_utils import strutils

from zun.container.driver.hugepages import PageStock
from zun.topology import HostTopology, Plan

Pages = dict[int, dict[int, int]]
"""Number of huge pages by memory node and size in KiB: ``{0: {1048576: 2}}`` is 2 GiB on node 0."""

_EXAMPLE = "node:0,size:1GB,count:2"


def parse(texts: Sequence[str]) -> Pages:
    """Return the pages of lines such as ``node:0,size:1GB,count:2``; a size without a unit is KiB.

    Raise ValueError, with the line and the member, for text of another form and for one size twice on a node.
    """
    found: Pages = {}
    for text in texts:
        pairs = (part.partition(":") for part in text.split(","))
        members = {name.strip(): value.strip() for name, _, value in pairs}
        if sorted(members) != ["count", "node", "size"] or text.count(",") != 2:
            raise ValueError(f"{text!r} must have the members node, size and count, for example {_EXAMPLE}")
        node, count = (_number(text, name, members[name]) for name in ("node", "count"))
        sizes = found.setdefault(node, {})
        size = _size(text, members["size"])
        if size in sizes:
            raise ValueError(f"{text!r}: pages of {size} KiB of node {node} are there already; give one line for them")
        sizes[size] = count
    return found


def _number(text: str, name: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,9}", value):
        raise ValueError(f"{text!r}: {name} must be a whole number, got {value!r}; an example is {_EXAMPLE}")
    return int(value)


def _size(text: str, value: str) -> int:
    """Return KiB of ``2048``, ``2MB`` or ``1GB``."""
    try:
        kib = int(value) if value.isdecimal() else strutils.string_to_bytes(value, return_int=True) // 1024
    except ValueError:
        kib = 0
    if not 0 < kib < 1 << 40:
        raise ValueError(f"{text!r}: size must be KiB or have a unit, as 2048, 2MB or 1GB, got {value!r}")
    return kib


def lacking(topology: HostTopology, reserved: Pages) -> Iterator[str]:
    """Yield a note on each size of which a node has fewer pages than are to be reserved."""
    for node, sizes in reserved.items():
        for size, count in sizes.items():
            has = next((cell.pages.get(size, 0) for cell in topology.cells if cell.id == node), 0)
            if has < count:
                yield (
                    f"[compute] reserved_huge_pages keeps {count} pages of {size} KiB of memory node {node}, which has "
                    f"{has}"
                )


def used_by_others(
    topology: HostTopology, claims: Iterable[Plan], stock: Mapping[int, Mapping[int, PageStock]]
) -> Iterator[str]:
    """Yield a note on each size of which a node has fewer free pages than containers may still be given.

    ``topology`` is the host without reserved pages, ``claims`` are its containers, and ``stock`` has the pages as the
    kernel counts them.
    """
    claims = tuple(claims)
    for cell in topology.cells:
        for size, count in cell.pages.items():
            held = sum(share.pages.get(size, 0) for plan in claims if (share := plan.cells.get(cell.id)) is not None)
            held += topology.foreign.share(cell.id).pages.get(size, 0)
            known = stock.get(cell.id, {}).get(size)
            if known is not None and known.free < count - held:
                yield (
                    f"programs outside of the service use {count - held - known.free} huge pages of {size} KiB on "
                    f"memory node {cell.id} that containers may still be given; keep them for the host with [compute] "
                    "reserved_huge_pages"
                )
