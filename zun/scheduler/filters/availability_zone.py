# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec


class AvailabilityZoneFilter(HostFilter):
    """Drop hosts outside the zone, and, when one host was asked for by name, every other host."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.requested_host and spec.requested_host != host.hostname:
            return f"host {spec.requested_host} was asked for"
        if spec.availability_zone and spec.availability_zone != host.availability_zone:
            return f"it is in zone {host.availability_zone}, not {spec.availability_zone}"
        return None
