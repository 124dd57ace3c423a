# SPDX-License-Identifier: Apache-2.0
"""Text lines about a request that fits on no host.

Each function takes the document of ``GET /v1/containers/{ident}/explain``, or the refusal of a dry run.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zun.topology import amounts

Document = Mapping[str, Any]

# Code of an unfit host -> advice for the user. The advice is here because it names options of the command line.
HELP: Mapping[str, str] = {
    "refused-before": "try again: what a host refused once it may take now",
    "service": "ask an administrator: 'openstack appcontainer service list' tells which hosts are up",
    "zone": "another --availability-zone ('openstack appcontainer availability zone list'), another --host, or none",
    "runtime": "another --runtime, or none",
    "label": "other or fewer label: hints (--hint)",
    "reserved": "ask an administrator: hosts are reserved to other projects",
    "aggregate": "other or fewer hints (--hint)",
    "trait": "fewer --required-trait, --forbidden-trait, --any-trait or --member-of, or image:trait: hints (--hint)",
    "image": "an image for the hosts there are, or other image: hints (--hint)",
    "group": "another --group, one with a soft policy, or none",
    "neighbour": "other same_host or different_host hints (--hint), or none",
    "no-pinning": "leave out --cpu-policy dedicated, or ask an administrator for a host that takes such containers",
    "disk": "a smaller --disk, or fewer and smaller volumes",
    "other": "ask an administrator: a filter of this cloud turns hosts away",
}
SHORT = (
    "ask for less in more than one respect, or delete what is not needed; 'openstack appcontainer placement capacity' "
    "tells what fits"
)


def lines(document: Document) -> list[str]:
    """Return the lines of the whole explanation. The hosts that nearly fit come last, one by one."""
    changes = document["changes"]
    ways_out = _changes(changes) if changes else _advice(document)
    return [document["reason"], "", *_counts(document), *ways_out, *_details(document)]


def _counts(document: Document) -> Iterator[str]:
    counts = ", ".join(f"{hosts} {code}" for code, hosts in document["codes"].items())
    yield f"{count(document['hosts'], 'host')} by what binds first: {counts or 'none'}"


def _advice(document: Document) -> Iterator[str]:
    yield "Nothing like it would fit by a change in one respect. What may help:"
    for text in dict.fromkeys(HELP.get(code, SHORT) for code in document["codes"]):
        yield f"  {text}"


def _changes(changes: Sequence[Document]) -> Iterator[str]:
    yield "It would have fitted with:"
    for change in changes:
        yield f"  {options(change['change'])}"


def options(change: Mapping[str, Any]) -> str:
    """Return a change as options of the command line, for example ``--memory 512 without --numa-nodes``."""
    given = [f"{option(name)} {_value(value)}" for name, value in change.items() if value is not None]
    left_out = [option(name) for name, value in change.items() if value is None]
    without = ["without " + ", ".join(left_out)] if left_out else []
    return " ".join([*given, *without])


def option(name: str) -> str:
    """Return the option of a request's member: ``--cpu-policy`` for ``cpu_policy``."""
    return "--" + name.replace("_", "-")


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(_value(each) for each in value)
    return amounts.text(value) if isinstance(value, float) else str(value)


def _details(document: Document) -> Iterator[str]:
    for detail in document.get("details", ()):
        yield ""
        yield f"{detail['host']}: {detail['code']}: {detail['reason']}"
        for name, value in detail.get("found", {}).items():
            yield f"  it has {name.replace('_', ' ')} {_found(value)}"
        wanted = "; ".join(_wanted(each) for each in detail.get("wanted", ()))
        if wanted:
            yield f"  wanted of {'one cell' if len(detail['wanted']) == 1 else 'each of its cells'}: {wanted}"
        for free in detail.get("free", ()):
            yield f"  cell {free['node']} has {_free(free)}"
        for change in detail.get("changes", ()):
            yield f"  would take {options(change['change'])}"
    if document.get("details_left_out"):
        yield ""
        yield f"{count(document['details_left_out'], 'host')} more, none nearer."


def _found(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_found(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else _value(value)


def _wanted(wanted: Mapping[str, Any]) -> str:
    pages = f" in pages of {wanted['page_kib']} KiB" if wanted["page_kib"] else ""
    return f"{amounts.cpus(amounts.text(wanted['cpus']))}, {wanted['memory_mib']} MiB{pages}"


def _free(free: Mapping[str, Any]) -> str:
    pages = "".join(f", {number} pages of {size} KiB" for size, number in free["pages"].items())
    cores = f"{amounts.cpus(str(free['cpus']))} free ({count(free['whole_cores'], 'whole core')})"
    return f"{cores}, {amounts.text(free['shared'])} in the shared pool, {free['memory_mib']} MiB{pages}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
