# SPDX-License-Identifier: Apache-2.0
"""Check the NUMA fields of a request together.

``zun.api.schemas.numa`` has checked the form of each field. The rules here hold for every host: a request that passes
them fits some machine, and any other request is refused before a row exists.
"""

from collections.abc import Mapping
from typing import Any

from zun.api.schemas.numa import FIELDS
from zun.common import exceptions
from zun.objects.placement import ASKED_AS, held_plan, keep_problem
from zun.topology import CPUPolicy, CpuSet, PlacementRequest, amounts

_PLAIN = PlacementRequest(cpus=1, memory_mib=0).to_dict()
DEFAULTS: Mapping[str, Any] = {
    ASKED_AS[name]: _PLAIN[name] for name in ("thread_policy", "isolation", "numa_nodes", "numa_affinity", "mempolicy")
}
_WHOLE = "a dedicated container needs a whole number of CPUs, at least 1, for example 2"


def placement(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the placement to store on a container: the requested fields with defaults filled in; empty if shared.

    ``given`` is the checked body of a create request: ``cpu`` and ``memory`` are None or absent unless the client named
    them. Raises InvalidValue, whose text begins with the name of the field.
    """
    asked = {name: given[name] for name in FIELDS if given.get(name) is not None}
    if given.get("cpu_policy") != CPUPolicy.DEDICATED:
        if asked:
            raise _refusal(
                next(iter(asked)), "it places dedicated CPUs: ask for cpu_policy 'dedicated' with it, or leave it out"
            )
        return {}
    cpu, memory = given.get("cpu"), given.get("memory")
    if cpu is None or cpu < 1 or cpu != int(cpu):
        raise _refusal("cpu", _WHOLE + ("" if cpu is None else f"; {amounts.text(cpu)} is not one"))
    if memory is None:
        raise _refusal(
            "memory", "a dedicated container needs its memory in MiB, for example 1024, to have it on its cells"
        )
    placed = {**DEFAULTS, **asked, "numa_nodes": _nodes(asked)}
    _check_shape(placed, int(cpu), memory)
    return placed


def _check_shape(placed: Mapping[str, Any], cpu: int, memory: int) -> None:
    """Raise InvalidValue unless ``cpu`` CPUs and ``memory`` MiB can be spread as ``placed`` says."""
    nodes = placed["numa_nodes"]
    if nodes > cpu:
        reason = f"{nodes} cells cannot share {cpu} CPUs, each needs one at least; ask for fewer cells or more CPUs"
        raise _refusal("numa_nodes", reason)
    for name, total, unit, of in (("numa_cpus", cpu, "CPUs", "cpu"), ("numa_mem", memory, "MiB", "memory")):
        parts = placed.get(name)
        if parts is not None and sum(parts) != total:
            raise _refusal(name, f"its entries add up to {sum(parts)} {unit} and {of} is {total}; make them equal")
    _check_pages(placed, memory)


def check_resized(
    row: Mapping[str, Any],
    cpu: float | None = None,
    memory: int | None = None,
    cpu_policy: str | None = None,
    keep_cpus: str | None = None,
) -> None:
    """Raise InvalidValue if a container cannot have this ``cpu``, ``memory`` or ``cpu_policy``, or cannot keep
    ``keep_cpus``.

    None leaves a value unchanged.
    """
    dedicated = (cpu_policy or row["cpu_policy"]) == CPUPolicy.DEDICATED
    new_cpu = row["cpu"] if cpu is None else cpu
    if keep_cpus and (wrong := keep_problem(CpuSet(keep_cpus), held_plan(row), new_cpu if dedicated else None)):
        raise _refusal("keep_cpus", wrong)
    if not dedicated:
        return
    if new_cpu < 1 or new_cpu != int(new_cpu):
        raise _refusal("cpu", f"{_WHOLE}; {amounts.text(new_cpu)} is not one")
    _check_shape({**DEFAULTS, **row["placement"]}, int(new_cpu), row["memory"] if memory is None else memory)


def _nodes(asked: Mapping[str, Any]) -> int:
    """Return the number of cells: the requested number, or the number of entries in the lists."""
    nodes = asked.get("numa_nodes")
    for name in ("numa_cpus", "numa_mem"):
        entries = asked.get(name)
        if entries is None:
            continue
        if nodes is not None and len(entries) != nodes:
            raise _refusal(name, f"it has {len(entries)} entries for {nodes} cells; give one entry a cell")
        nodes = len(entries)
    return DEFAULTS["numa_nodes"] if nodes is None else nodes


def _check_pages(placed: Mapping[str, Any], memory: int) -> None:
    """Raise InvalidValue unless the memory of each cell is a whole number of pages of a size in KiB."""
    size = placed.get("mem_page_size")
    if not isinstance(size, int):
        return
    parts = placed.get("numa_mem")
    name, amounts = ("memory", [memory]) if parts is None else ("numa_mem", parts)
    for amount in amounts:
        if amount * 1024 % size:
            raise _refusal(
                name,
                f"{amount} MiB is not a whole number of pages of {size} KiB (mem_page_size); give a multiple of "
                f"{size // 1024} MiB",
            )


def _refusal(field: str, reason: str) -> exceptions.InvalidValue:
    return exceptions.InvalidValue(f"{field}: {reason}.")
