# SPDX-License-Identifier: Apache-2.0
"""The books of a host, kept a second time from the records alone.

What is claimed is counted from the JSON of plans, what there is from the JSON of the topology, with sets and sums and
nothing of ``zun.topology``: a mistake of its values cannot hide itself here.
"""

import collections
from collections.abc import Iterable, Mapping
from typing import Any


def cpus_of(text: str) -> set[int]:
    """The numbers of a list in the kernel's form."""
    found = set()
    for piece in filter(None, text.split(",")):
        first, _, last = piece.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


class Books:
    """The sums of a host's claims by cell id. ``claims`` are the wire forms of plans, by owner.

    Raise AssertionError if two claims own one CPU.
    """

    def __init__(self, claims: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        self.owner: dict[int, str] = {}
        self.mib: collections.Counter[int] = collections.Counter()
        self.pages: collections.Counter[tuple[int, int]] = collections.Counter()
        for owner, record in claims:
            for cell in record["cells"]:
                if record["cpu_policy"] != "shared":
                    for cpu in cpus_of(cell["cpuset_cpu"]) | cpus_of(cell.get("withheld", "")):
                        holder = self.owner.setdefault(cpu, owner)
                        assert holder == owner, f"CPU {cpu} is owned by {holder} and by {owner}"
                pages = {int(size): count for size, count in (cell.get("pages") or {}).items()}
                for size, count in pages.items():
                    self.pages[cell["node"], size] += count
                if not pages:
                    self.mib[cell["node"]] += cell["cpuset_mem"]

    def check(self, topology: Mapping[str, Any], free: Mapping[int, Any]) -> None:
        """Claims and what ``free`` says is left (``Usage.free``) are what ``topology``, as a record, has.

        CPUs, ordinary MiB and pages of each size, on each cell.
        """
        kept = cpus_of(topology["reserved"])
        for cell in topology["cells"]:
            node, left = cell["id"], free[cell["id"]]
            there = cpus_of(cell["cpus"]) - kept
            if topology["dedicated_set"] is not None:
                there &= cpus_of(topology["dedicated_set"])
            else:
                there -= cpus_of(topology["shared_set"] or "")
            there -= cpus_of(topology["isolated"])
            owned = {cpu for cpu in self.owner if cpu in there}
            assert owned.isdisjoint(left.cpus), f"cell {node}: CPUs {owned & set(left.cpus)} are owned and free"
            assert owned | set(left.cpus) == there, f"cell {node}: CPUs {there - owned - set(left.cpus)} are lost"
            sizes = {int(size): count for size, count in cell["pages"].items()}
            ordinary = cell["memory_mib"] - sum(size * count // 1024 for size, count in sizes.items())
            ordinary -= topology["reserved_memory_mib"].get(str(node), 0)
            assert self.mib[node] + left.memory_mib == max(0, ordinary), f"cell {node}: MiB do not add up"
            for size, count in sizes.items():
                assert self.pages[node, size] + left.pages[size] == count, f"cell {node}: pages of {size} KiB"
        places = {cell["id"] for cell in topology["cells"]}
        assert set(self.mib) <= places and {node for node, _ in self.pages} <= places
        everywhere = {cpu for cell in topology["cells"] for cpu in cpus_of(cell["cpus"])}
        assert self.owner.keys() <= everywhere | cpus_of(topology["offline"])
