# SPDX-License-Identifier: Apache-2.0
"""The mounts of this host's containers: calls the driver of each mount's kind."""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from oslo_config import cfg

from zun.common import exceptions
from zun.common.departures import departed
from zun.common.mounts import Kind, Mount, mounts_of
from zun.container.driver.lifecycle import RuntimeMount
from zun.objects import Container
from zun.objects.placement import MEMBERS, VOLUMES, held_plan
from zun.volume.cinder import CinderDriver
from zun.volume.driver import VolumeDriver
from zun.volume.files import FileDriver
from zun.volume.local import LocalDriver
from zun.volume.memory import MemoryDriver
from zun.volume.runtime import NamedDriver, TmpfsDriver

LOG = logging.getLogger(__name__)


class Volumes:
    """The mounts of one host. ``drivers`` has the driver of each kind of mount."""

    def __init__(self, drivers: Mapping[Kind, VolumeDriver], cinder: CinderDriver | None = None) -> None:
        """``cinder`` is the driver of Cinder's volumes, if this host is configured for them."""
        self._drivers = {**drivers, Kind.CINDER: cinder} if cinder is not None else dict(drivers)
        self._cinder = cinder

    @classmethod
    def of_host(cls, root: Path, cinder: CinderDriver | None = None) -> Self:
        """Return Volumes with the drivers of a host; the data of mounts is below ``root``."""
        drivers: dict[Kind, VolumeDriver] = {
            Kind.LOCAL: LocalDriver(root / "local"),
            Kind.BIND: FileDriver(root / "files"),
            Kind.TMPFS: TmpfsDriver(),
            Kind.MEMORY: MemoryDriver(root / "memory"),
            Kind.VOLUME: NamedDriver(),
        }
        return cls(drivers, cinder)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, host: str) -> Self:
        """Return the Volumes of ``host``. Raises Misconfigured."""
        root = Path(conf.state_path, "volumes")
        return cls.of_host(root, CinderDriver.from_conf(conf, host, root / "cinder") if conf.cinder.enabled else None)

    def prepare(self, container: Container, *, again: bool = False) -> list[RuntimeMount]:
        """Prepare the container's mounts and return how the runtime mounts each. Raises VolumeError.

        The members of a capsule share the mounts of the capsule. ``again``: the container's object was made before.
        Then missing data is an error, and never replaced by an empty volume. A volume of Cinder has its data also if
        the object was made on another host.
        """
        owner, project = container.capsule_uuid or container.uuid, container.project_id
        moves = departed(container.request) is not None
        return [
            self._prepared(owner, project, number, mount, again or (moves and mount.kind is Kind.CINDER))
            for number, mount in _numbered(container)
        ]

    def attach(self, container: Container) -> None:
        """Attach the container's volumes of Cinder again if it left this host and came back. Raises VolumeError."""
        for number, mount in self._of_cinder(container):
            self._prepared(container.uuid, container.project_id, number, mount, again=True)

    def detach(self, container: Container) -> None:
        """Detach the container's volumes of Cinder, with their data, for another host. Raises VolumeError."""
        for _, mount in self._of_cinder(container):
            assert self._cinder is not None  # else there are none
            self._cinder.detach(container.uuid, mount)

    def _of_cinder(self, container: Container) -> list[tuple[int, Mount]]:
        if self._cinder is None:
            return []
        return [(number, mount) for number, mount in _own(container) if mount.kind is Kind.CINDER]

    def _prepared(self, owner: str, project_id: str, number: int, mount: Mount, again: bool) -> RuntimeMount:
        found = self._driver(mount).prepare(owner, project_id, number, mount, again=again)
        return replace(found, read_only=True) if mount.read_only else found

    def _driver(self, mount: Mount) -> VolumeDriver:
        driver = self._drivers.get(mount.kind)
        if driver is None:
            raise exceptions.VolumeError(
                mount=mount.destination, reason=f"the host of the container has no driver for {mount.kind}"
            )
        return driver

    def restore(self, container: Container) -> None:
        """Restore the container's mounts after a restart of this service.

        A mount that cannot be restored is logged; its container will not start.
        """
        for number, mount in _own(container):
            try:
                self._driver(mount).restore(container.uuid, number, mount)
            except exceptions.VolumeError as exc:
                LOG.warning("Could not restore a mount of container %s: %s", container.uuid, exc)

    def remove(self, container: Container, *, elsewhere: bool = False) -> None:
        """Remove the mounts that only this container used, after its object is gone. Can be repeated.

        ``elsewhere``: it is, or will be, on another host, where it has its volumes of Cinder: these are detached here.

        If some cannot be removed, the others are removed and the VolumeError of the last failure is raised.
        """
        failure: exceptions.VolumeError | None = None
        for number, mount in _own(container):
            try:
                if elsewhere and self._cinder is not None and mount.kind is Kind.CINDER:
                    self._cinder.detach(container.uuid, mount)
                else:
                    self._driver(mount).remove(container.uuid, number, mount)
            except exceptions.VolumeError as exc:
                failure = exc
        if failure is not None:
            raise failure

    def sweep(self, known: Callable[[Collection[str]], Collection[str]]) -> None:
        """Remove what an earlier run or a failure left of volumes of containers that are gone.

        ``known`` returns those of the uuids that are containers, in the database or at this host's runtime.
        """
        if self._cinder is not None:
            self._cinder.sweep(known)


def _numbered(container: Container) -> list[tuple[int, Mount]]:
    try:
        return [
            (number, replace(mount, node=_node(container, number)) if mount.kind is Kind.MEMORY else mount)
            for each, mount in enumerate(mounts_of(container))
            for number in (each if mount.number is None else mount.number,)
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise exceptions.VolumeError(
            f"The mounts of container {container.uuid} cannot be read from its row. Delete it and create it again."
        ) from exc


def _node(container: Container, number: int) -> int | None:
    """Return the only memory node on which a volume in memory is claimed, or None if there are several or none."""
    plan, records = held_plan(container), (container.placement or {}).get(MEMBERS) or ()
    if plan is None:
        return None
    parts = zip(records, plan.parts, strict=False)  # the plan of a uniform capsule has none
    part = next((part for record, part in parts if number in record.get(VOLUMES, ())), plan)
    nodes = [node for node, share in part.cells.items() if share.memory_mib]
    return nodes[0] if len(nodes) == 1 else None


def _own(container: Container) -> list[tuple[int, Mount]]:
    try:
        return [] if container.capsule_uuid else _numbered(container)
    except exceptions.VolumeError as exc:  # must not stop this service from starting or the container's deletion
        LOG.warning("%s", exc)
        return []
