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
# "=" is "at least" in this language; the exact one is "==".
_NUMBERS: Mapping[str, Compare] = {"=": ge, "==": eq, "!=": ne, ">=": ge, "<=": le}
_TEXTS: Mapping[str, Compare] = {"s==": eq, "s!=": ne, "s<": lt, "s<=": le, "s>": gt, "s>=": ge}


class AggregateExtraSpecsFilter(HostFilter):
    """Drop hosts whose aggregates have not got what the request's extra specs ask of their metadata.

    The rules are those of Nova's filter of that purpose. Keys with the scope ``aggregate_instance_extra_specs:`` and
    keys without any scope apply; keys of another scope are for somebody else. A host none of whose aggregates has the
    key is unfit. Several aggregates give several values, and so does one with commas in it; one of them must match.
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
        return table.matching("aggregates", wanted, lambda host: self.reject(host, spec) is None)


def _asked(spec: RequestSpec) -> Iterator[tuple[str, str]]:
    """The keys that are for this filter, without their scope, and what their values must be."""
    for key, wanted in spec.extra_specs.items():
        scope, colon, name = key.partition(":")
        if not colon or scope == SCOPE:
            yield name if colon else key, wanted


def _values(host: HostState, name: str) -> set[str]:
    """What the host's aggregates have under a key."""
    return {
        value.strip()
        for each in host.aggregates
        if name in each.metadata
        for value in str(each.metadata[name]).split(",")
    }


def matches(value: str, wanted: str) -> bool:
    """Whether ``value`` is as ``wanted`` says: an operator and its operands, or, without an operator, the same text.

    ``<or> A <or> B`` is one of them, ``<in> A`` has A as a part, ``<all-in> A B`` has every one as a part. Operators
    for numbers (``= == != >= <=``) do not match what is no number. Operators stand first, with a blank behind them.
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
