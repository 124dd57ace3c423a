# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState, serves
from zun.scheduler.request_spec import RequestSpec
from zun.topology.device_request import DeviceRequest
from zun.topology.devices import Device


class PciPassthroughFilter(HostFilter):
    """Drop hosts with too few free devices for one request of the container, or for all of them together.

    Devices are counted by kind, so the filter needs no search, and drops only hosts that certainly lack devices. The
    exact plan of CpuSetFilter chooses the devices and looks at their cells and switches.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        for requests, wanted in _wanted(spec.placement.devices):
            if sum(host.free_devices[kind] for kind in _serving(host.free_devices, requests)) < wanted:
                names = " and ".join(dict.fromkeys(request.name for request in requests))
                few = f"fewer than {wanted} devices for {names} are free"
                return few if wanted > 1 else f"no device for {names} is free"
        return None

    def found(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        free = {
            request.name: sum(host.free_devices[kind] for kind in _serving(host.free_devices, [request]))
            for request in spec.placement.devices
        }
        return {"free_devices": free} if free else {}

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        if not spec.placement.devices:
            return table.everything
        columns, admitted = table.free_devices, table.everything
        for requests, wanted in _wanted(spec.placement.devices):
            free = np.zeros(len(table), np.int32)
            for kind in _serving(columns, requests):
                free += columns[kind]
            admitted = admitted & (free >= wanted)
        return admitted


def _wanted(requests: Sequence[DeviceRequest]) -> Iterator[tuple[Sequence[DeviceRequest], int]]:
    """Yield requests and the number of devices that must be free for them: of each request alone, then of all."""
    for request in requests:
        yield [request], request.count
    if len(requests) > 1:
        yield requests, sum(request.count for request in requests)


def _serving(kinds: Mapping[Device, Any], requests: Sequence[DeviceRequest]) -> list[Device]:
    """Return the kinds of devices that serve at least one of the requests."""
    return [kind for kind in kinds if any(serves(kind, request) for request in requests)]
