# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec


class AvailabilityZoneFilter(HostFilter):
    """Drop hosts outside the requested zone. If the request names a host, drop every other host."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.requested_host and spec.requested_host != host.hostname:
            return "another host was asked for"  # a volume may have set the host, whose name users must not see
        if spec.availability_zone and spec.availability_zone != host.availability_zone:
            return f"it is in zone {host.availability_zone}, not {spec.availability_zone}"
        return None

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        admitted = table.everything
        if spec.requested_host:
            admitted = table.only([spec.requested_host])
        if spec.availability_zone:
            zone = spec.availability_zone
            inside = table.matching(("availability_zone",), zone, lambda host: host.availability_zone == zone)
            admitted = inside if admitted is table.everything else admitted & inside
        return admitted
