# SPDX-License-Identifier: Apache-2.0
"""Read the inventory of this host again and again, and tell others about changes."""

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oslo_config import cfg

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.engine_watch import EngineWatch, Neighbours
from zun.compute.host.inventory import Inventory, inventory, pages_of_programs, plans_there
from zun.compute.host.machine import NvmlFacts, discovered
from zun.compute.kept.recovery import Recovery
from zun.compute.quiet.quiet import Quiet
from zun.container.driver.driver import ContainerDriver
from zun.messaging.scheduler_api import SchedulerAPI
from zun.objects import ComputeNode, Container
from zun.objects.placement import held_plan
from zun.placement.foreign import foreign_of
from zun.placement.ledger import Ledger
from zun.placement.tree import Disk, Provider, tree
from zun.topology import HostTopology, Plan, host_use
from zun.topology.foreign import NO_FOREIGN, Foreign
from zun.topology.ranges import MALFORMED

LOG = logging.getLogger(__name__)


class HostInventory:
    """The inventory of one host. Thread-safe: an older look at the host never replaces a newer one."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        hostname: str,
        driver: ContainerDriver,
        tracker: ComputeNodeTracker,
        engine: EngineWatch,
        ledger: Ledger,
        scheduler_api: SchedulerAPI,
        recovery: Recovery,
        *,
        joins_neutron: bool,
        machine: Callable[[], HostTopology] | None,
        quiet: Quiet,
    ) -> None:
        """``machine`` replaces the hardware."""
        self._conf = conf
        self._hostname = hostname
        self._driver = driver
        self._tracker = tracker
        self._engine = engine
        self._ledger = ledger
        self._scheduler_api = scheduler_api
        self._recovery = recovery
        self._joins_neutron = joins_neutron
        self._machine = machine
        self._quiet = quiet
        sees_rows = conf.compute.database == "direct"
        self._neighbours = Neighbours(hostname, conf.compute.inventory_interval, sees_rows=sees_rows)
        self._nvml = NvmlFacts()
        self._written: Inventory | None = None
        """The inventory that this process wrote last."""
        self._uses: dict[str, str] = {}  # by the host itself, of devices by their addresses
        self._turn = threading.Lock()

    def update(self, context: RequestContext) -> list[str]:
        """Read the host and write the changes. Return the uuids of containers whose devices may be gone, or back."""
        with self._turn:
            return self._update(context)

    def _update(self, context: RequestContext) -> list[str]:
        others = self._plans_of_others(context)
        facts = self._driver.facts()
        if self._machine is None:
            machine = self._nvml.added_to(discovered(cdi_folders=facts.cdi_folders))
        else:
            machine = self._machine()
        plans = self._plans(context)
        held = {device.address for plan in plans for device in plan.devices}
        devices, self._uses = host_use.remembered(machine.devices, self._uses, held)
        found = inventory(
            self._conf,
            replace(machine, devices=devices),
            facts,
            others,
            held,
            neutron=self._joins_neutron,
            quiet=self._quiet.abilities(machine.cpus, facts.cgroup_driver),
        )
        before = self._tracker.topology
        foreign = self._foreign(context, self._tracker.promised(found.topology))
        found = replace(found, topology=found.topology.shared_with(foreign))
        generation = self._tracker.update_inventory(context, found.topology, found.columns)
        self._engine.found(context, facts.engine)
        if found == self._written and self._tracker.topology == before:
            return []
        self._written = found
        for note in (*found.topology.notes, *self._used_pages(found.topology, plans)):
            LOG.warning("Reading the hardware: %s", note)
        LOG.info("This host has CPUs %s in %d cells", found.topology.cpus, len(found.topology.cells))
        self._scheduler_api.host_changed(context, host=self._hostname, generation=generation)
        if foreign:
            LOG.info("Consumers of other services have %s of this host at Placement", foreign)
        self._ledger.look()
        return [uuid for uuid, plan in self._tracker.usage if plan.devices]

    def _plans(self, context: RequestContext) -> Sequence[Plan]:
        """Return the plans that containers hold. The first inventory of a run is made before the tracker has claims."""
        if self._written is not None:
            return [plan for _, plan in self._tracker.usage]
        containers = Container.list_by_host(context, self._hostname)
        held = (held_plan(each) for each in containers if each.capsule_uuid is None)
        return [plan for plan in held if plan is not None]

    def _used_pages(self, topology: HostTopology, plans: Sequence[Plan]) -> Iterator[str]:
        """Yield notes on huge pages that containers may still be given and other programs use."""
        try:
            stock = self._driver.page_stock()
        except exceptions.DockerError as exc:
            yield str(exc)
        else:
            yield from pages_of_programs(topology, plans, stock)

    def _foreign(self, context: RequestContext, topology: HostTopology) -> Foreign:
        """Return the part of this host that other services have: as of the last run until Placement answers."""
        if self._written is not None:
            before = self._written.topology.foreign
        elif self._conf.placement.mode == "off":
            before = NO_FOREIGN
        else:
            row = ComputeNode.topology(context, self._hostname)
            try:
                before = Foreign.from_dict(row["foreign"]) if "foreign" in row else NO_FOREIGN
            except MALFORMED as exc:  # written by hand; this host writes it anew
                LOG.warning("What other services had of this host cannot be read from its row: %.200r", exc)
                before = NO_FOREIGN
        others = self._ledger.others()
        return before if others is None else foreign_of(topology, self._tracker.usage, others, before.withheld)

    def _plans_of_others(self, context: RequestContext) -> list[Plan]:
        """Return the plans of containers that run here and are none of this host in the database.

        Either a service of another name made them: this service had that name before, or there are two services. Or
        the database has lost their rows.
        """
        there = self._driver.of_other_hosts()
        self._neighbours.tell(there)
        others = [plan for name, uuids in there.items() for plan in self._plans_there(context, name, uuids)]
        return others + self._recovery.plans_without_row(context)

    def _plans_there(self, context: RequestContext, name: str, uuids: Collection[str]) -> list[Plan]:
        """Return the plans of the containers ``uuids`` of another host. A conductor does not tell them."""
        try:
            return plans_there(Container.list_by_host(context, name), uuids)
        except exceptions.Forbidden:
            return []

    @property
    def columns(self) -> Mapping[str, Any]:
        """Return the columns that this run wrote last."""
        assert self._written is not None
        return self._written.columns

    def providers(self, name: str, aggregates: Collection[str]) -> tuple[Provider, ...]:
        """The tree of this host at Placement at this moment."""
        assert self._written is not None  # the host is known before anybody is told
        columns, tracker = self._written.columns, self._tracker
        disk = Disk(columns["disk_total"], columns["disk_allocation_ratio"], tracker.disk_held)
        pinning = columns["enable_cpu_pinning"]
        return tree(
            self._hostname, tracker.topology, tracker.usage, disk,
            traits=columns["traits"], aggregates=aggregates, pinning=pinning, name=name,
        )  # fmt: skip
