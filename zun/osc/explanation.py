# SPDX-License-Identifier: Apache-2.0
"""Lines of text from what the API answers about a request that fits nowhere.

Everything here is a function of the document of ``GET /v1/containers/{ident}/explain``, or of the refusal of a dry run.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]

# Under the codes of hosts that are unfit as a whole. What the options of ours are called is known here only.
HELP: Mapping[str, str] = {
    "refused-before": "try again: what a host refused once it may take now",
    "service": "ask an administrator: 'openstack appcontainer service list' tells which hosts are up",
    "zone": "another --availability-zone ('openstack appcontainer availability zone list'), another --host, or none",
    "runtime": "another --runtime, or none",
    "label": "other or fewer label: hints (--hint)",
    "reserved": "ask an administrator: hosts are reserved to other projects",
    "aggregate": "other or fewer hints (--hint)",
    "image": "an image for the hosts there are, or other image: hints (--hint)",
    "group": "another --group, one with a soft policy, or none",
    "neighbour": "other same_host or different_host hints (--hint), or none",
    "no-pinning": "leave out --cpu-policy dedicated, or ask an administrator for a host that takes such containers",
    "disk": "a smaller --disk, or fewer and smaller volumes",
    "other": "ask an administrator: a filter of this cloud turns hosts away",
}
SHORT = "ask for less in more than one respect, or delete what is not needed; 'placement capacity' tells what fits"


def lines(document: Document) -> list[str]:
    """The whole explanation, the nearest hosts last and one by one."""
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
    """A change as options of the command line: what to give, and what to leave out."""
    given = [f"{option(name)} {_value(value)}" for name, value in change.items() if value is not None]
    left_out = [option(name) for name, value in change.items() if value is None]
    without = ["without " + ", ".join(left_out)] if left_out else []
    return " ".join([*given, *without])


def option(name: str) -> str:
    """What the option for a member of a request is called."""
    return "--" + name.replace("_", "-")


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(_value(each) for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _details(document: Document) -> Iterator[str]:
    for detail in document.get("details", ()):
        yield ""
        yield f"{detail['host']}: {detail['code']}: {detail['reason']}"
        for name, value in detail.get("found", {}).items():
            yield f"  it has {name.replace('_', ' ')} {_found(value)}"
        wanted = "; ".join(_wanted(each) for each in detail.get("wanted", ()))
        if wanted:
            yield f"  wanted of {'one node' if len(detail['wanted']) == 1 else 'a node each'}: {wanted}"
        for free in detail.get("free", ()):
            yield f"  node {free['node']} has {_free(free)}"
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
    return "none" if value is None else str(value)


def _wanted(wanted: Mapping[str, Any]) -> str:
    pages = f" in pages of {wanted['page_kib']} KiB" if wanted["page_kib"] else ""
    return f"{wanted['cpus']:g} CPUs, {wanted['memory_mib']} MiB{pages}"


def _free(free: Mapping[str, Any]) -> str:
    pages = "".join(f", {number} pages of {size} KiB" for size, number in free["pages"].items())
    cores = f"{free['cpus']} CPUs free ({count(free['whole_cores'], 'whole core')})"
    return f"{cores}, {free['shared']:g} in the shared pool, {free['memory_mib']} MiB{pages}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
