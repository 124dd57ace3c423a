# SPDX-License-Identifier: Apache-2.0
"""Give devices to containers of a Docker daemon, and read back what they have.

Sources: proc(5), Documentation/admin-guide/cgroup-v1/devices.rst, network_namespaces(7).
"""

import logging
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from docker import errors as docker_errors
from oslo_utils import timeutils

from zun.common import exceptions
from zun.container import cdi
from zun.container.docker import network_cards
from zun.container.docker.client import OnEngine, object_name
from zun.container.docker.devices import (
    SHARED_FILES,
    DeviceFacts,
    Passthrough,
    configured_parts,
    is_guarded,
    moved_cards,
    passthrough,
)
from zun.container.docker.kernel import locate, own_group, steps_below
from zun.container.docker.state import runtime_state
from zun.container.driver.audit import DeviceAccess
from zun.container.driver.container import ContainerView
from zun.container.driver.devices import ContainerDevices
from zun.container.driver.state import RuntimeState
from zun.topology.devices import DeviceType
from zun.topology.files import text_of
from zun.topology.mounts import mountinfo

LOG = logging.getLogger(__name__)


class DockerDevices(OnEngine):
    def passthrough(self, container: ContainerView, devices: ContainerDevices) -> Passthrough:
        """Return how Docker gives the devices. Raise DeviceUnusable if it cannot."""
        if not devices.given and not any(map(is_guarded, devices.offered)):
            return Passthrough()
        answer = passthrough(devices, self._device_facts(devices), container.runtime)
        if isinstance(answer, str):
            raise exceptions.DeviceUnusable(reason=answer)
        return answer

    def await_cards(self, container: ContainerView, devices: ContainerDevices, join: str | None) -> None:
        """Wait for the network cards that a container is to get. DeviceUnusable if one is in a foreign network.

        The new container may have its cards already: an earlier attempt made it, or the container of uuid ``join``,
        whose network it uses, has them.
        """
        if cards := self._cards(devices):
            pid = self._process(container, join or container.uuid)[0]
            for address in cards:
                network_cards.movable(Path(self.settings.root), address, pid, network_cards.PATIENCE)

    def join_interfaces(self, container: ContainerView, devices: ContainerDevices) -> None:
        root, cards = Path(self.settings.root), self._cards(devices)
        if not cards:
            return
        pid, age = self._process(container, container.uuid)
        if not pid or network_cards.same_network(root, pid):
            return
        for address in cards:
            for name in network_cards.movable(root, address, pid, max(0.0, network_cards.PATIENCE - age)):
                network_cards.move_interface(name, pid)
                LOG.info("Moved interface %s of device %s into container %s", name, address, container.uuid)

    def _cards(self, devices: ContainerDevices) -> list[str]:
        root = Path(self.settings.root)
        return [address for address in moved_cards(devices) if network_cards.is_network_card(root, address)]

    def _process(self, container: ContainerView, uuid: str) -> tuple[int, float]:
        """Return the first process of the object of ``uuid`` and its age in seconds; 0 and 0.0 without a process."""
        with self._engine.translated("inspect", container):
            try:
                state = runtime_state(self._engine.api.inspect_container(object_name(uuid)), None)
            except docker_errors.NotFound:
                return 0, 0.0
        age = 0.0 if state.started_at is None else (timeutils.utcnow() - state.started_at).total_seconds()
        return state.pid, age

    def device_access(self, container: ContainerView, state: RuntimeState, devices: ContainerDevices) -> DeviceAccess:
        given = self.passthrough(container, devices)
        with self._engine.translated("inspect", container):
            configured = configured_parts(self._engine.api.inspect_container(object_name(container.uuid)))
        root, cards = Path(self.settings.root), self._cards(devices) if state.pid else []
        lacking = tuple(each for each in cards if network_cards.lacks_card(root, each, state.pid))
        try:
            found = _view(root, state, given, configured, everything=bool(container.privileged))
            return replace(found, lacking=lacking)
        except (FileNotFoundError, ProcessLookupError):
            return DeviceAccess(given.parts, configured)
        except (OSError, ValueError) as exc:
            raise exceptions.DockerError(
                f"Cannot read which devices container {container.uuid} has: {exc}. The agent must run in the host's "
                "pid and cgroup namespaces."
            ) from exc

    def _device_facts(self, devices: ContainerDevices) -> DeviceFacts:
        with self._engine.translated("describe itself"):
            info = self._engine.api.info()
        root, engine_folders = Path(self.settings.root), info.get("CDISpecDirs") or ()
        addresses = {each.address for each in devices.given}
        given = [device for device in devices.offered if device.address in addresses]
        by_cdi = any(device.type is DeviceType.CDI for device in given)
        uuids = ((device.address, _gpu_uuid(root, device.address)) for device in given)
        return DeviceFacts(
            cdi=cdi.load(root, engine_folders or cdi.FOLDERS) if by_cdi else cdi.CdiDevices(),
            engine_cdi=bool(engine_folders),
            runtimes=frozenset(info.get("Runtimes") or ()),
            default_runtime=info.get("DefaultRuntime") or "",
            shared_files=frozenset(file for file in SHARED_FILES if (root / file.lstrip("/")).exists()),
            gpus={address: uuid for address, uuid in uuids if uuid is not None},
            network_cards=frozenset(each for each in addresses if network_cards.is_network_card(root, each)),
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of devices.list. ``major`` and ``minor`` are None for any number."""

    kind: str
    major: int | None
    minor: int | None
    access: frozenset[str]

    @classmethod
    def parse(cls, line: str) -> Self:
        """Return the rule of a line such as ``c 10:183 rwm`` or ``a *:* rwm``. ValueError for other text."""
        kind, numbers, access = line.split()
        major, minor = (None if number == "*" else int(number) for number in numbers.split(":"))
        return cls(kind, major, minor, frozenset(access))

    def admits(self, kind: str, major: int, minor: int, access: Iterable[str]) -> bool:
        """Return whether the rule gives all of ``access`` to the device of this kind and number."""
        return (
            self.kind in ("a", kind)
            and self.major in (None, major)
            and self.minor in (None, minor)
            and self.access >= set(access)
        )

    def __str__(self) -> str:
        numbers = ":".join("*" if number is None else str(number) for number in (self.major, self.minor))
        return f"{self.kind} {numbers} {''.join(each for each in 'rwm' if each in self.access)}"


#: Devices that Docker gives to every container: null, zero, full, random, urandom, tty, console, ptmx, tun, pts.
_USUAL = frozenset({("c", 1, 3), ("c", 1, 5), ("c", 1, 7), ("c", 1, 8), ("c", 1, 9), ("c", 5, 0), ("c", 5, 1),
                    ("c", 5, 2), ("c", 10, 200), ("c", 136, None)})  # fmt: skip


def _view(
    root: Path, state: RuntimeState, given: Passthrough, configured: frozenset[str], *, everything: bool
) -> DeviceAccess:
    if not state.pid:
        return DeviceAccess(given.parts, configured)
    rules = device_rules(root, state.pid, state.container_id)
    missing, denied, own = [], [], set()
    for node in given.nodes:
        facts = (root / node.host_path.lstrip("/")).stat()
        kind = "b" if stat.S_ISBLK(facts.st_mode) else "c"
        number = os.major(facts.st_rdev), os.minor(facts.st_rdev)
        own.add((kind, *number))
        if not _sees(root / "proc" / str(state.pid) / "root", node.path, facts):
            missing.append(node.host_path)
        if rules is not None and not any(rule.admits(kind, *number, node.permissions) for rule in rules):
            denied.append(node.host_path)
    if rules is None:
        return DeviceAccess(given.parts, configured, tuple(missing))
    others_add = bool(given.gpus or given.cdi)  # NVIDIA's runtime and Docker's CDI add rules of their own
    beyond = None if others_add else () if everything else tuple(map(str, _beyond(rules, own)))
    return DeviceAccess(given.parts, configured, tuple(missing), tuple(denied), beyond)


def device_rules(root: Path, pid: int, container_id: str) -> tuple[Rule, ...] | None:
    """Return the device rules of the container's group, or None where they cannot be read.

    Version 2 has a program of the kernel in place of the rules. The rules of a group are those of version 1 alone.
    """
    cgroup_text = text_of(root / "proc" / str(pid) / "cgroup")
    mount, group = locate("devices", cgroup_text, mountinfo(root))
    if mount.unified:
        return None
    if container_id not in group:
        raise ValueError(f"process {pid} is in group {group}, which is not the container's")
    directory = mount.directory(root) / steps_below(mount, own_group(group, container_id))
    return tuple(map(Rule.parse, (directory / "devices.list").read_text().splitlines()))


def _beyond(rules: Iterable[Rule], own: set[tuple[str, int, int]]) -> Iterator[Rule]:
    """Yield the rules that let a container read or write devices which are neither usual nor its ``own``."""
    for rule in rules:
        key = (rule.kind, rule.major, rule.minor)
        if rule.access & {"r", "w"} and key not in _USUAL and key not in own:
            yield rule


def _sees(top: Path, path: str, facts: os.stat_result) -> bool:
    """Return whether ``path`` in the container whose files are below ``top`` is the device of ``facts``."""
    try:
        found = (top / path.lstrip("/")).lstat()  # never follow a link: it would lead to a file of the host
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (stat.S_IFMT(found.st_mode), found.st_rdev) == (stat.S_IFMT(facts.st_mode), facts.st_rdev)


def _gpu_uuid(root: Path, address: str) -> str | None:
    """Return the UUID of an NVIDIA GPU, as ``GPU-...``; None if the driver does not tell (``GPU-????``)."""
    try:
        told = (root / "proc/driver/nvidia/gpus" / address / "information").read_text(errors="replace")
    except OSError:
        return None
    match = re.search(r"^GPU UUID:\s*(GPU-[0-9a-f-]+)\s*$", told, re.MULTILINE)
    return None if match is None else match[1]
