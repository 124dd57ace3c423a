# SPDX-License-Identifier: Apache-2.0
"""Check the NUMA fields of a request together.

``zun.api.schemas.numa`` has checked the form of each field. The rules here hold for every host: a request that passes
them fits some machine, and any other request is refused before a row exists.
"""

from collections.abc import Mapping
from typing import Any

from zun.api.schemas.numa import FIELDS, MIXED_FIELDS, QUIET_FIELDS
from zun.common import exceptions
from zun.objects.placement import ASKED_AS, held_plan, keep_problem, mixed_problem
from zun.objects.wishes import Wishes
from zun.topology import CPUPolicy, CpuSet, Isolation, NUMAAffinity, PlacementRequest, amounts

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
    asked = {name: given[name] for name in (*FIELDS, *MIXED_FIELDS, *QUIET_FIELDS) if given.get(name) is not None}
    policy = given.get("cpu_policy")
    if "cache_ways" in asked and "cache_mib" in asked:
        raise _refusal("cache_mib", "it says the same as cache_ways in another unit; leave one of both out")
    if policy == CPUPolicy.MIXED:
        return _mixed(given, asked)
    for name in MIXED_FIELDS:
        if name in asked:
            raise _refusal(name, "it is for containers of cpu_policy 'mixed': ask for that with it, or leave it out")
    if policy != CPUPolicy.DEDICATED:
        if asked:
            raise _refusal(
                next(iter(asked)), "it places dedicated CPUs: ask for cpu_policy 'dedicated' with it, or leave it out"
            )
        return {}
    cpu = given.get("cpu")
    if cpu is None or cpu < 1 or cpu != int(cpu):
        raise _refusal("cpu", _WHOLE + ("" if cpu is None else f"; {amounts.text(cpu)} is not one"))
    memory = _needed_memory(given, "dedicated")
    placed = {**DEFAULTS, **asked, "numa_nodes": _nodes(asked)}
    _check_shape(placed, int(cpu), memory)
    if Wishes.of(placed).partition and placed["cpu_isolation"] == Isolation.ISOLATED:
        raise _refusal("cpu_partition", "CPUs of cpu_isolation 'isolated' are in no other set; leave one of both out")
    return placed


def _needed_memory(given: Mapping[str, Any], kind: str) -> int:
    memory: int | None = given.get("memory")
    if memory is None:
        raise _refusal(
            "memory", f"a {kind} container needs its memory in MiB, for example 1024, to have it on its cells"
        )
    return memory


def _mixed(given: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the placement to store on a mixed container; see ``placement``."""
    own, cpu = asked.get("dedicated_cpus"), given.get("cpu")
    if own is None:
        raise _refusal("dedicated_cpus", "a mixed container must say how many of its CPUs are its own, for example 2")
    if cpu is None:
        raise _refusal("cpu", f"a mixed container needs the number of all its CPUs, more than its own {own}")
    memory = _needed_memory(given, "mixed")
    placed = {**DEFAULTS, **asked, "numa_nodes": _nodes(asked)}
    for name, only in (("numa_nodes", 1), ("numa_affinity", str(NUMAAffinity.REQUIRE))):
        if placed[name] != only:
            raise _refusal(name, f"a mixed container is on one cell, so it must be {only}; leave it out")
    if "numa_cpus" in placed:
        raise _refusal("numa_cpus", "a mixed container is on one cell; leave it out")
    if Wishes.of(placed).partition:
        raise _refusal("cpu_partition", "a mixed container runs on CPUs of the shared pool too; ask for 'dedicated'")
    if placed["cpu_isolation"] == Isolation.NODE:
        raise _refusal(
            "cpu_isolation", "node would leave no CPU of its cell for the shared part of a mixed container; ask for l3"
        )
    _check_mixed(placed, cpu, memory)
    return placed


def _check_mixed(placed: Mapping[str, Any], cpu: float, memory: int) -> None:
    """Raise InvalidValue unless a mixed container can have ``cpu`` CPUs in all and ``memory`` MiB."""
    own = placed["dedicated_cpus"]
    if cpu <= own:
        reason = f"a mixed container with {own} CPUs of its own (dedicated_cpus) needs more than {own} in all"
        raise _refusal("cpu", f"{reason}; {amounts.text(cpu)} is not more")
    if "numa_mem" in placed and sum(placed["numa_mem"]) != memory:
        total = sum(placed["numa_mem"])
        raise _refusal("numa_mem", f"its entries add up to {total} MiB and memory is {memory}; make them equal")
    _check_pages(placed, memory)


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
    policy = cpu_policy or row["cpu_policy"]
    if wrong := mixed_problem(row["cpu_policy"], policy):
        raise _refusal("cpu_policy", wrong)
    dedicated = policy == CPUPolicy.DEDICATED
    if not dedicated and Wishes.of(row["placement"]).partition:
        raise _refusal("cpu_policy", f"a {policy} container has no cpu_partition, and this one does; create it anew")
    new_cpu = row["cpu"] if cpu is None else cpu
    new_memory = row["memory"] if memory is None else memory
    own = row["placement"]["dedicated_cpus"] if policy == CPUPolicy.MIXED else new_cpu if dedicated else None
    if keep_cpus and (wrong := keep_problem(CpuSet(keep_cpus), held_plan(row), own)):
        raise _refusal("keep_cpus", wrong)
    if policy == CPUPolicy.MIXED:
        _check_mixed(row["placement"], new_cpu, new_memory)
    if not dedicated:
        return
    if new_cpu < 1 or new_cpu != int(new_cpu):
        raise _refusal("cpu", f"{_WHOLE}; {amounts.text(new_cpu)} is not one")
    _check_shape({**DEFAULTS, **row["placement"]}, int(new_cpu), new_memory)


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
