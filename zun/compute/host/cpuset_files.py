# SPDX-License-Identifier: Apache-2.0
"""Tell the program in a container its CPUs, memory nodes and devices in a file that follows each change.

Each container has a folder below ``state_path``/cpusets/HOST. ``UUID/seen`` in it is mounted at ``/run/zun`` of the
container, as a folder, so that the program sees a file that is replaced there. The empty file ``UUID/due`` exists from
before a change until the container's signal was sent: a signal is sent twice rather than never.
"""

import logging
import pathlib
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import orjson
from oslo_utils import uuidutils

from zun.common import exceptions
from zun.common.context import admin_context
from zun.common.states import Status
from zun.common.whole_files import write_whole
from zun.container.driver.inspector import Inspector
from zun.container.driver.lifecycle import Lifecycle, RuntimeMount
from zun.objects import Container
from zun.topology import CpuSet, Plan

LOG = logging.getLogger(__name__)

TARGET = "/run/zun"
NAME = "cpuset.json"
_GENERATION = "generation"


class Driver(Lifecycle, Inspector, Protocol):
    """The capabilities that a signal needs: to see whether a container runs, and to send it."""


@dataclass(frozen=True, slots=True)
class Told:
    """The content of one file. CPUs and memory nodes are lists as the kernel's, devices are PCI addresses."""

    cpus: str
    mems: str
    dedicated: str
    devices: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: Plan, cpus: CpuSet) -> "Told":
        """Return what a container with ``plan`` is told that may run on ``cpus`` now."""
        devices = tuple(device.address for device in plan.devices)
        return cls(str(cpus), str(plan.mems), str(plan.dedicated_cpus), devices)


class CpusetFiles:
    """The folders of this host's containers below ``folder``; None makes no folders. Failures are logged.

    ``settle`` is not thread-safe.
    """

    def __init__(self, folder: pathlib.Path | None, driver: Driver) -> None:
        self._folder = folder
        self._driver = driver
        self._said: dict[str, Told] = {}
        """Uuid -> the content of a file after which no signal is due. Others are read anew."""

    def prepare(self, uuid: str, told: Told) -> list[RuntimeMount]:
        """Write the file of a container that does not run, and return its mount: none if this fails."""
        if self._folder is None:
            return []
        seen = self._folder / uuid / "seen"
        self._said.pop(uuid, None)
        try:
            seen.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._folder.chmod(0o700)
            seen.chmod(0o755)  # any user of the container may read, also one of another user namespace
            self._replace(seen / NAME, told)
        except OSError as exc:
            LOG.warning("Container %s has no %s/%s: %s", uuid, TARGET, NAME, exc)
            return []
        return [RuntimeMount("bind", str(seen), TARGET, read_only=True)]

    def uuids(self) -> list[str]:
        """Return the uuids of the containers that have a folder."""
        try:
            return [each.name for each in self._folder.iterdir()] if self._folder is not None else []
        except OSError:  # no container has one yet, or none can: then a warning told so
            return []

    def settle(self, containers: Iterable[tuple[str, Told, str | None]]) -> None:
        """Replace each file that says something else by now, then send the signals that are due.

        ``containers`` are those with a folder: uuid, what it is told, and the signal that it wants after a change.
        """
        for uuid, told, signal in containers:
            if self._said.get(uuid) == told:
                continue
            assert self._folder is not None
            due = self._folder / uuid / "due"
            try:
                self._replace(self._folder / uuid / "seen" / NAME, told, None if signal is None else due)
                if due.exists():
                    if signal is not None and not self._sent(uuid, signal):
                        continue
                    due.unlink(missing_ok=True)
                self._said[uuid] = told
            except FileNotFoundError:
                continue  # it is being removed
            except (OSError, exceptions.ZunError) as exc:
                LOG.warning("Container %s was not told its CPUs %s; the next comparison does it: %s", uuid, told, exc)

    def remove(self, uuid: str) -> None:
        """Remove the folder of a container that is gone, if it has one."""
        self._said.pop(uuid, None)
        if self._folder is not None:
            try:
                shutil.rmtree(self._folder / uuid)
            except FileNotFoundError:
                return
            except OSError as exc:
                LOG.warning("The folder that told container %s its CPUs stays: %s", uuid, exc)

    def sweep(self, known: Callable[[Collection[str]], Collection[str]]) -> None:
        """Remove the folders of containers that are gone. ``known`` returns those of the uuids that exist."""
        uuids = [each for each in self.uuids() if uuidutils.is_uuid_like(each)]
        for uuid in {*uuids} - {*known(uuids)} if uuids else ():
            LOG.info("Container %s is gone; the folder that told its CPUs is removed", uuid)
            self.remove(uuid)

    @staticmethod
    def _replace(file: pathlib.Path, told: Told, due: pathlib.Path | None = None) -> None:
        """Replace the file if it says something else. ``due`` is written before a file that exists is replaced."""
        before = _read(file)
        if before is not None and Told(**_without_generation(before)) == told:
            return
        if before is not None and due is not None:
            due.touch(mode=0o600)
        now = {**asdict(told), _GENERATION: 1 if before is None else before[_GENERATION] + 1}
        write_whole(file, orjson.dumps(now, option=orjson.OPT_APPEND_NEWLINE), 0o644)

    def _sent(self, uuid: str, signal: str) -> bool:
        """Send the signal to the first process. Return False if the container must be asked again later.

        A container that does not run needs no signal: its next process reads the new file.
        """
        view = Container(admin_context(), uuid=uuid, name=uuid, container_id=None, status=None)
        state = self._driver.show(view)
        if state is None or not state.pid:
            return True
        if state.status == Status.PAUSED:
            return False
        self._driver.kill(view, signal)
        LOG.info("Container %s got %s after a change of its CPUs", uuid, signal)
        return True


def _without_generation(record: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in record.items() if name != _GENERATION}
    return {**found, "devices": tuple(found["devices"])}


def _read(file: pathlib.Path) -> dict[str, Any] | None:
    """Return the content of a file, None without one that can be understood."""
    try:
        found = orjson.loads(file.read_bytes())
        Told(**_without_generation(found))
        return found if isinstance(found[_GENERATION], int) else None
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
