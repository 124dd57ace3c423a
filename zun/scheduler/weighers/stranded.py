# SPDX-License-Identifier: Apache-2.0
import threading

import numpy as np
from oslo_config import cfg

from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.packing import Demand, Devices, Machine, cells_of, kind_name, losses, machine_of
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher
from zun.topology import PlacementRequest

SCALE = 1000.0
"""Unit: containers lost. A loss of 10 gives the weight 0.990, a loss of 1000 gives 0.5."""


class StrandedWeigher(HostWeigher):
    """Prefer hosts where a dedicated container strands the least capacity; see ``zun.scheduler.packing``.

    The weight is 1 for a host that loses nothing, and 0 for a host without room. Shared containers, and containers on
    CPUs that the kernel isolates, strand nothing: only the other weighers order their hosts.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._machines: dict[Machine, int] = {}
        self._numbering = threading.Lock()  # creates and dry runs use one weigher at the same time

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """Return the weight of the host alone, as if it were the whole cloud."""
        return float(self.weigh_all(Columns([host]), spec)[0])

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        if not spec.dedicated or spec.isolated or not len(table):
            return table.nothing
        request = spec.placement
        alone = request.numa_nodes == 1 and request.numa_affinity == "require"
        codes = table.measured("machine", self._code).astype(np.intp)
        cells = cells_of(table.cell_cpus, table.cell_memory, list(self._machines), codes, apart=not alone)
        demand = table.demand(request)
        devices = _devices(table, request, demand)
        weights: Floats = 1 / (1 + losses(cells, request, demand, devices) / SCALE)  # without room: infinite loss
        return weights

    def _code(self, host: HostState) -> float:
        """Return a number for the machine of the host; equal machines have equal numbers."""
        machine = machine_of(host.topology)
        with self._numbering:
            return self._machines.setdefault(machine, len(self._machines))


def _devices(table: Columns, request: PlacementRequest, demand: Demand) -> Devices | None:
    """Return the devices of the hosts, or None if neither the request nor a usual kind has any."""
    if not request.devices and not any(shape.devices for shape in demand.shapes):
        return None
    free = {kind_name(kind): count for kind, count in table.free_devices.items()}
    return Devices(free, table.measured("devices", _number), table.offering(request) if request.devices else ())


def _number(host: HostState) -> float:
    return float(host.device_count)
