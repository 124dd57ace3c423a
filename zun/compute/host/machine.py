# SPDX-License-Identifier: Apache-2.0
"""Read this machine: its topology, the devices that ``[devices] device_spec`` can select, and what NVML tells."""

import json
import logging
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zun.container import cdi
from zun.topology import HostTopology, amounts, discover, nvml
from zun.topology.cells import only_cell
from zun.topology.device_files import discover_files
from zun.topology.devices import Device, DeviceType
from zun.topology.files import Tree
from zun.topology.gpu_parts import mig_address, part_class
from zun.topology.host_use import marked

LOG = logging.getLogger(__name__)


def discovered(root: str = "/", cdi_folders: Collection[str] = ()) -> HostTopology:
    """Return the topology with the PCI devices, the device files and the CDI devices of the machine below ``root``.

    ``cdi_folders`` are those of the runtime's own CDI, if it has one.
    """
    found = discover(root)
    named = cdi.load(root, cdi_folders or cdi.FOLDERS)
    only = only_cell(found.cells)
    others = (*discover_files(root, found.devices), *named.devices())
    placed = (replace(device, cell=only if device.cell is None else device.cell) for device in others)
    devices = (*found.devices, *marked(Tree(Path(root)), placed))
    return replace(found, devices=devices, notes=(*found.notes, *named.notes))


SECONDS = 5.0
PROGRAM = (sys.executable, "-P", nvml.__file__)
"""The interpreter leaves the folder of the program out of its path: modules there have names of others."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the program."""

    links: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The PCI addresses of the GPUs that NVLink joins to a GPU, by its PCI address."""
    mig: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    """The profile and the UUID of each MIG instance, by the address of the part."""


class NvmlSilent(Exception):
    """NVML does not answer. The message says why."""


class NvmlFacts:
    """Ask NVML for the NVLink links and the profiles of MIG instances again and again, during one run of the agent.

    A broken driver can make a call of NVML crash or never return, and a driver that is not kept loaded needs seconds
    for each GPU. Therefore a process of its own, the program ``zun.topology.nvml``, asks. The agent waits for its
    answer for SECONDS only; a later answer counts at the next inventory.
    """

    def __init__(self, command: Sequence[str] = PROGRAM, seconds: float = SECONDS) -> None:
        """``command`` starts the process that asks."""
        self._command = command
        self._seconds = seconds
        self._late: subprocess.Popen[str] | None = None
        """A process that did not answer in time."""
        self._known = Answer()
        self._said: set[str] = set()

    def added_to(self, machine: HostTopology) -> HostTopology:
        """Return ``machine`` with the facts of NVML. A machine without an NVIDIA GPU is returned as it is.

        If NVML does not answer, its last answer counts, or nothing before the first one. The log has the reason once.
        """
        if not any(map(_is_nvidia_gpu, machine.devices)):
            return machine
        try:
            self._known = self._ask()
        except NvmlSilent as exc:
            if str(exc) not in self._said:
                LOG.info("NVML does not tell the NVLink links and MIG profiles of this host's GPUs: %s", exc)
            self._said.add(str(exc))
        there = {device.address for device in machine.devices}
        links, sized = self._known.links, (_sized(each, self._known) for each in machine.devices)
        return replace(
            machine,
            devices=tuple(_linked(each, there.intersection(links.get(each.address, ()))) for each in sized),
        )

    def _ask(self) -> Answer:
        """Return the answer. Raise NvmlSilent with the reason if there is no answer."""
        if self._late is not None and self._late.poll() is None:
            raise NvmlSilent("an earlier call has not returned yet")
        try:
            process = self._late or subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError as exc:
            raise NvmlSilent(f"the process that asks does not start: {exc}") from exc
        try:
            told, _ = process.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired as exc:
            self._late = process  # ending it would not help: a call of the driver cannot be broken off
            raise NvmlSilent(f"there is no answer within {amounts.text(self._seconds)} seconds") from exc
        self._late = None
        if process.returncode:
            raise NvmlSilent(f"the process that asks ended with status {process.returncode}")
        return _read(told)


def _read(text: str) -> Answer:
    """Return an answer of the program. Raise NvmlSilent with the reason if the program got none from NVML."""
    try:
        answer = json.loads(text)
        if "error" in answer:
            raise NvmlSilent(str(answer["error"]))
        return Answer(
            links={str(address): frozenset(map(str, others)) for address, others in answer["links"].items()},
            mig=dict(map(_instance, answer["mig"])),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise NvmlSilent(f"the answer cannot be read: {text[:40]!r}") from exc


def _instance(told: Mapping[str, Any]) -> tuple[str, tuple[str | None, str]]:
    """Return the address of a MIG instance, and its profile and UUID."""
    profile = None if told["profile"] is None else str(told["profile"])
    return mig_address(told["gpu"], told["gpu_instance"], told["compute_instance"]), (profile, str(told["uuid"]))


def _sized(device: Device, answer: Answer) -> Device:
    """Return the device; a MIG instance that NVML lists gets its profile, class and UUID."""
    if device.type is not DeviceType.PART or device.address not in answer.mig:
        return device
    profile, uuid = answer.mig[device.address]
    return replace(device, profile=profile, uuid=uuid, resource_class=part_class("MIG", profile))


def _is_nvidia_gpu(device: Device) -> bool:
    return device.vendor_id == "10de" and device.class_id.startswith("03")


def _linked(device: Device, others: Collection[str]) -> Device:
    return replace(device, links=tuple(sorted({*device.links, *others}))) if others else device
