# SPDX-License-Identifier: Apache-2.0
"""A whole cloud in one process: scheduler and compute services over in-process messages, runtimes in memory."""

import contextlib
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Self, TypeVar

import pytest
from oslo_config import cfg
from oslo_utils import uuidutils

from zun import conf as zun_conf
from zun.common import exceptions
from zun.common.context import RequestContext
from zun.compute.container.operations import key_of
from zun.compute.service import ComputeService
from zun.compute.work.queue import Lane
from zun.container.fake import InMemoryDriver
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.messaging import rpc
from zun.messaging.compute_api import ComputeAPI, whole
from zun.messaging.scheduler_api import SchedulerAPI
from zun.network.fake import InMemoryNetworks
from zun.objects import Container
from zun.scheduler.service import SchedulerService
from zun.tests.fixtures import new_container, wait_for
from zun.tests.host_in_memory import look_now
from zun.topology import CpuSet, HostTopology, NUMACell, Plan, Usage
from zun.volume.fake import InMemoryVolumeDriver

T = TypeVar("T")

SETTLED = {"Created", "Running", "Stopped", "Paused", "Error", "Deleted"}


def machine(cells: int = 2, cores: int = 4, threads: int = 1, memory_mib: int = 4096) -> HostTopology:
    """Equal cells of whole cores, CPUs numbered cell by cell, core by core."""
    made = []
    for cell in range(cells):
        first = cell * cores * threads
        siblings = tuple(CpuSet(range(first + core * threads, first + (core + 1) * threads)) for core in range(cores))
        cpus = CpuSet(range(first, first + cores * threads))
        distances = {other: 10 if other == cell else 20 for other in range(cells)}
        made.append(
            NUMACell(id=cell, cpus=cpus, siblings=siblings, l3=(cpus,), memory_mib=memory_mib, distances=distances)
        )
    return HostTopology(cells=tuple(made))


def without(topology: HostTopology, cpus: CpuSet) -> HostTopology:
    """The machine with ``cpus`` offline."""

    def left(groups: tuple[CpuSet, ...]) -> tuple[CpuSet, ...]:
        return tuple(group - cpus for group in groups if group - cpus)

    cells = (
        replace(cell, cpus=cell.cpus - cpus, siblings=left(cell.siblings), l3=left(cell.l3)) for cell in topology.cells
    )
    return replace(topology, cells=tuple(cells), offline=topology.offline | cpus)


_STATE: list[tempfile.TemporaryDirectory[str] | None] = [None]


def configuration(**options: Any) -> cfg.ConfigOpts:
    """The global configuration with nothing of this machine, or of earlier tests, in it. ``options``: group__option."""
    conf = zun_conf.register_opts(cfg.CONF)
    conf.reset()
    conf([], project="zun", default_config_files=[], default_config_dirs=[])
    conf.set_override("reserved_host_memory_mb", 0, group="compute")
    _STATE[0] = tempfile.TemporaryDirectory(prefix="zun-state-")  # the one before is removed
    conf.set_override("state_path", _STATE[0].name)
    for name, value in options.items():
        group, _, option = name.rpartition("__")
        conf.set_override(option, value, group=group or None)
    return conf


class Requests(ComputeAPI):
    """Accepts actions like the API, but in any status and with the row as it is, and tells the host."""

    def want(self, context: RequestContext, container: Container, action: str, **arguments: Any) -> None:
        """Want the action of the container. If the context's request has ended, it is one of a new request."""
        for each in db_actions.of_container(container.uuid):
            if (each["request_id"], each["action"]) == (context.request_id, action) and each["finish_time"]:
                context = RequestContext.from_dict({**context.to_message(), "request_id": None}, overwrite=False)
        who = {"request_id": context.request_id, "user_id": context.user_id, "project_id": container.project_id}
        db_actions.note_arguments(container.uuid, action, arguments, **who)
        self.act(context, container, action, arguments)

    def start(self, context: RequestContext, container: Container) -> None:
        self.want(context, container, "start")

    def stop(self, context: RequestContext, container: Container, timeout: int | None = None) -> None:
        self.want(context, container, "stop", timeout=timeout)

    def reboot(self, context: RequestContext, container: Container, timeout: int | None = None) -> None:
        self.want(context, container, "reboot", timeout=timeout)

    def rebuild(self, context: RequestContext, container: Container) -> None:
        self.want(context, container, "rebuild")

    def pause(self, context: RequestContext, container: Container) -> None:
        self.want(context, container, "pause")

    def unpause(self, context: RequestContext, container: Container) -> None:
        self.want(context, container, "unpause")

    def kill(self, context: RequestContext, container: Container, signal: str | None = None) -> None:
        self.want(context, container, "kill", signal=signal)

    def delete(
        self, context: RequestContext, container: Container, force: bool = False, stop_timeout: int | None = None
    ) -> None:
        with contextlib.suppress(exceptions.ContainerNotFound):
            db.update(container.uuid, {"status": "Deleting"})
        self.want(context, container, "delete", force=force, stop_timeout=stop_timeout)

    def resize(self, context: RequestContext, container: Container, **size: Any) -> None:
        self.want(context, container, "resize_container", **whole(size))

    def move(self, context: RequestContext, container: Container, plan: Plan, after: Sequence[str] = ()) -> None:
        self.want(context, container, "move", cpuset=plan.to_dict(), after=list(after))

    def network_attach(self, context: RequestContext, container: Container, port: str) -> None:
        self.want(context, container, "network_attach", port=port)

    def network_detach(self, context: RequestContext, container: Container, port: str) -> None:
        self.want(context, container, "network_detach", port=port)

    def commit(self, context: RequestContext, container: Container, image: str) -> None:
        self.want(context, container, "commit", image=image)


class Cloud:
    """``hosts`` maps names to machines. Everything of a test's own; ``stop``, or the end of its block, ends it.

    ``kernels`` maps names of hosts to made folders that are their kernels.
    """

    def __init__(
        self, hosts: Mapping[str, HostTopology], kernels: Mapping[str, pathlib.Path] | None = None, **options: Any
    ) -> None:
        self.conf = configuration(**options)
        self.transport = rpc.get_transport(self.conf, f"inproc:///{uuidutils.generate_uuid()}")
        self.machines = dict(hosts)
        self.kernels = kernels or {}
        self.drivers: dict[str, InMemoryDriver] = {}
        self.networks: dict[str, Any] = {}
        self.volumes: dict[str, InMemoryVolumeDriver] = {}
        self.agents: dict[str, ComputeService] = {}
        self._blind: set[str] = set()  # hosts whose looks wait for ever
        self.scheduler = SchedulerService(self.conf, host="scheduler")
        for name in hosts:
            self.start_agent(name)
        self.scheduler.start(self.transport)
        self.scheduler_api = SchedulerAPI(self.transport)
        self.compute_api = Requests(self.transport, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_agent(self, name: str) -> ComputeService:
        """Start the agent of a host; its runtime outlives it."""
        if name not in self.drivers:  # a test may have put one there, for a real daemon
            self.drivers[name] = InMemoryDriver()
        volumes = self.volumes.setdefault(name, InMemoryVolumeDriver())
        network = self.networks.setdefault(name, InMemoryNetworks())
        agent = ComputeService(
            self.conf,
            self.drivers[name],
            network,
            host=name,
            machine=lambda: self.machines[name],
            volumes=volumes.as_volumes(),
            kernel=str(self.kernels[name]) if name in self.kernels else None,
        )
        self.agents[name] = agent
        agent.start(self.transport)
        return agent

    def stop_agent(self, name: str) -> None:
        self.agents.pop(name).stop()

    def stop(self) -> None:
        services = [self.scheduler, *self.agents.values()]
        with ThreadPoolExecutor(len(services)) as pool:  # each waits a second for its idle threads
            list(pool.map(lambda service: service.stop(), services))
        self.conf.reset()

    def submit(self, context: RequestContext, **fields: Any) -> Container:
        """Do what the API does for a create; returns at once."""
        container = new_container(context, **fields)
        self.scheduler_api.create(context, container)
        return container

    def accept_reboot(self, container: Container) -> None:
        """Do what the API does to the row for a reboot, before it sends the message."""
        db.update(container.uuid, {"status": "Restarting", "task_state": "container_rebooting"})

    def run(self, context: RequestContext, **fields: Any) -> Container:
        """Create a container and return it as it has become."""
        return self.settled(self.submit(context, **fields))

    def settled(self, container: Container) -> Container:
        """The container once nothing works on it any more, nor waits to: a late look may still change its row."""
        return wait_for(lambda: self._if_settled(container.uuid))

    def _if_settled(self, uuid: str) -> Container | None:
        row = db.get(uuid)
        quiet = row["host"] not in self.agents or row["host"] in self._blind or self.quiet(row["host"], uuid)
        done = quiet and row["status"] in SETTLED and row["task_state"] is None
        return Container.from_row(None, row) if done else None

    def compared(self, host: str, what: Callable[[], T]) -> T:
        """The first true answer of ``what`` while the host compares all its containers again and again.

        As it does for ever: one comparison leaves to the next whatever it meets at work, be it for a look alone.
        """
        agent = self.agents[host]
        return wait_for(lambda: what() or (None if agent.queue.busy() else agent._compare()))

    def stop_looking(self, host: str) -> None:
        """From now on ``host`` looks at a container only when the test asks: no news of its runtime change a row."""
        self.agents[host]._threads[Lane.LOOK].shutdown(wait=True, cancel_futures=True)
        self._blind.add(host)

    def waiting(self, uuid: str) -> int:
        """Return how many pieces of work wait for their turn in the container's queue, or in its capsule's."""
        items = [agent.queue._items.get(key_of(uuid)) for agent in self.agents.values()]
        return sum(len(each.calls) + (each.lane is not None) for each in items if each is not None)

    def quiet(self, host: str, uuid: str) -> bool:
        """Return whether nothing is under way or waits in the container's queue."""
        return key_of(uuid) not in self.agents[host].queue._items

    def look(self, container: Container) -> Container:
        """Have the container's host bring its row to what the runtime says; return the container after this."""
        look_now(self.agents[container.host].parts, container.uuid)
        return self.settled(container)

    def gone(self, container: Container) -> None:
        """Wait until the container's row is gone, and what it held is free: its host gives that back behind the row,
        and the scheduler hears of it then.
        """
        self.row_gone(container)
        self.given_back(container)

    def row_gone(self, container: Container) -> None:
        wait_for(lambda: not _exists(container.uuid))

    def given_back(self, container: Container) -> None:
        """Wait until all hosts, and the scheduler, know that the container holds nothing any more."""
        wait_for(lambda: not any(container.uuid in each.owners for each in self._usages()))

    def _usages(self) -> list[Usage]:
        self.scheduler.table.refresh()  # as before each choice
        hosts = self.scheduler.table.hosts()
        return [*(agent.tracker.usage for agent in self.agents.values()), *(host.usage for host in hosts)]


def cloud_of(hosts: Mapping[str, HostTopology], **options: Any) -> Any:
    """Return a fixture that is a cloud with an empty database. A test may add options to it by ``indirect``."""

    @pytest.fixture
    def cloud(database: str, request: pytest.FixtureRequest) -> Iterator[Cloud]:
        with Cloud(hosts, **options, **getattr(request, "param", {})) as made:
            yield made

    return cloud


def _exists(uuid: str) -> bool:
    try:
        db.get(uuid)
    except exceptions.ContainerNotFound:
        return False
    return True
