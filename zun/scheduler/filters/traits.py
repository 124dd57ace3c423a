# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator, Mapping
from typing import Any

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec


class TraitsFilter(HostFilter):
    """Drop hosts without the traits that the request asks for, with traits that it forbids, or in other aggregates.

    As in Placement, a host needs every required trait, no forbidden one, and one of each list of alternatives; and it
    needs to be in one aggregate of each list of aggregates.
    """

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        reasons = [*_of_traits(host, spec), *_of_aggregates(host, spec)]
        return "; ".join(reasons) or None

    def found(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        named = spec.required_traits.union(spec.forbidden_traits, *spec.any_traits)
        found: dict[str, Any] = {"traits": sorted(host.traits & named)} if named else {}
        if spec.member_of:
            found["aggregates"] = [each.name for each in host.aggregates]
        return found

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        admitted = table.everything
        asked = spec.required_traits, spec.forbidden_traits, spec.any_traits
        if any(asked):
            admitted = table.matching(("traits",), asked, lambda host: not any(_of_traits(host, spec)))
        if spec.member_of:
            key = "member_of", spec.member_of
            inside = table.matching(("aggregates",), key, lambda host: not any(_of_aggregates(host, spec)))
            admitted = inside if admitted is table.everything else admitted & inside
        return admitted


def _of_traits(host: HostState, spec: RequestSpec) -> Iterator[str]:
    """Yield what is wrong with the traits of the host."""
    if not spec.required_traits <= host.traits:
        yield f"it lacks {', '.join(sorted(spec.required_traits - host.traits))}"
    if not spec.forbidden_traits.isdisjoint(host.traits):
        yield f"it has {', '.join(sorted(spec.forbidden_traits & host.traits))}, which is forbidden"
    for names in spec.any_traits:
        if names.isdisjoint(host.traits):
            yield f"it has none of {', '.join(sorted(names))}"


def _of_aggregates(host: HostState, spec: RequestSpec) -> Iterator[str]:
    """Yield what is wrong with the aggregates of the host."""
    own = {each.uuid for each in host.aggregates}
    for uuids in spec.member_of:
        if uuids.isdisjoint(own):
            yield f"it is in no aggregate of {', '.join(sorted(uuids))}"
