# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Collection, Iterator, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec

SCOPE = "aggregate_instance_extra_specs"

Compare = Callable[[Any, Any], bool]
# As in Nova, "=" means "at least". "==" means "equal".
_NUMBERS: Mapping[str, Compare] = {"=": ge, "==": eq, "!=": ne, ">=": ge, "<=": le}
_TEXTS: Mapping[str, Compare] = {"s==": eq, "s!=": ne, "s<": lt, "s<=": le, "s>": gt, "s>=": ge}


class AggregateExtraSpecsFilter(HostFilter):
    """Drop hosts whose aggregate metadata does not match the extra specs of the request.

    The rules are the same as in Nova's AggregateInstanceExtraSpecsFilter. The filter reads keys without a scope and
    keys with the scope ``aggregate_instance_extra_specs:``, and ignores keys of another scope. If no aggregate of the
    host has the key, the host is unfit. A host can have several values, from several aggregates or from a list with
    commas. At least one of them must match. Example: the extra spec ``ssd=true`` fits the metadata ``ssd=true,false``.
    """

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        for name, wanted in _asked(spec):
            values = _values(host, name)
            if not values:
                return f"none of its aggregates has {name}"
            if not any(matches(value, wanted) for value in values):
                return f"none of its aggregates has {name} {wanted}"
        return None

    def found(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        return {"aggregates": {name: sorted(_values(host, name)) for name, _ in _asked(spec)}}

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        if not spec.extra_specs:
            return table.everything
        wanted = tuple(sorted(spec.extra_specs.items()))
        return table.matching(("aggregates",), wanted, lambda host: self.reject(host, spec) is None)


def _asked(spec: RequestSpec) -> Iterator[tuple[str, str]]:
    """Yield each key that this filter reads, without its scope, and the value that the request wants.

    ``aggregate_instance_extra_specs:ssd=true`` yields ``("ssd", "true")``; ``capabilities:x=1`` yields nothing.
    """
    for key, wanted in spec.extra_specs.items():
        scope, colon, name = key.partition(":")
        if not colon or scope == SCOPE:
            yield name if colon else key, wanted


def _values(host: HostState, name: str) -> set[str]:
    """Return the values of a metadata key in all aggregates of the host."""
    return {
        value.strip()
        for each in host.aggregates
        if name in each.metadata
        for value in str(each.metadata[name]).split(",")
    }


def matches(value: str, wanted: str) -> bool:
    """Return whether ``value`` matches ``wanted``: a plain text, or an operator, a blank and its operands.

    ``ssd`` matches the text "ssd" only. ``<or> A <or> B`` matches A and B. ``<in> A`` matches texts that contain A,
    ``<all-in> A B`` texts that contain A and B. ``s== s!= s< s<= s> s>=`` compare texts. ``= == != >= <=`` compare
    numbers and never match other text: ``>= 4`` matches "10" but not "ten".
    """
    words = wanted.split()
    operator, operands = (words[0], words[1:]) if words else ("", [])
    if operator == "<or>":
        return value in {each.strip() for each in wanted.split("<or>")[1:]}
    if operator == "<in>":
        return bool(operands) and operands[0] in value
    if operator == "<all-in>":
        return _has_all(value, operands)
    if operator in _TEXTS:
        return bool(operands) and _TEXTS[operator](value, operands[0])
    if operator in _NUMBERS:
        try:
            return bool(operands) and _NUMBERS[operator](float(value), float(operands[0]))
        except ValueError:
            return False
    return value == wanted


def _has_all(value: str, parts: Collection[str]) -> bool:
    return bool(parts) and all(part in value for part in parts)
