# SPDX-License-Identifier: Apache-2.0
"""Say how Docker gives the devices of a claim to a container: decisions only, as pure functions.

A PCI device comes by the files under /dev that give access to it, and its network interfaces are moved. A file comes
as it is. A CDI device comes by Docker's own CDI if Docker has it (Docker 25 and later), else by those edits of its
CDI file that need no hook. An NVIDIA GPU comes by NVIDIA's runtime if Docker has it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from zun.container.cdi import CdiDevices, CdiMount, DeviceNode, Edits
from zun.container.driver.devices import ContainerDevices
from zun.container.driver.lifecycle import RuntimeMount
from zun.topology.device_request import GivenDevice, port_of
from zun.topology.devices import Device, DeviceType

#: Variable that tells a container its devices, for example ``gpu=0000:81:00.0,0000:c1:00.0 rng=/dev/hwrng``.
VARIABLE = "ZUN_DEVICES"
#: NVIDIA's variable that tells its runtime which GPUs to give: UUIDs, or ``void`` for none.
NVIDIA_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
NVIDIA_RUNTIME = "nvidia"
_NO_GPU = "void"

_COMPANIONS = {
    "/dev/vfio/": ("/dev/vfio/vfio",),
    "/dev/nvidia": ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"),
    "/dev/infiniband/": ("/dev/infiniband/rdma_cm",),
}
"""Beginning of a device's file -> files that all devices of this kind share. They are given if the host has them."""
#: Shared files that can be given. Only the host knows whether it has them.
SHARED_FILES = frozenset({"/dev/kfd", *(file for files in _COMPANIONS.values() for file in files)})
_LOCKED_MEMORY = ("/dev/vfio/", "/dev/infiniband/")  # their users lock memory for the device's own access
_BIND_OPTIONS = frozenset({"bind", "rbind", "ro", "rw", "nosuid", "nodev", "private", "rprivate"})


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The answers of Docker and of the host's files that decide how devices are given.

    ``shared_files`` are those of ``SHARED_FILES`` that the host has. ``gpus`` has the UUID of each NVIDIA GPU by its
    PCI address. ``network_cards`` are the given devices with network interfaces, in whatever network they are now.
    ``engine_cdi`` tells whether Docker has its own CDI.
    """

    cdi: CdiDevices = field(default_factory=CdiDevices)
    engine_cdi: bool = False
    runtimes: Collection[str] = ()
    default_runtime: str = ""
    shared_files: Collection[str] = ()
    gpus: Mapping[str, str] = field(default_factory=dict, hash=False)
    network_cards: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Passthrough:
    """The parts of a request to Docker that give devices to a container.

    ``cdi`` are names for Docker's own CDI, ``gpus`` the UUIDs of GPUs that NVIDIA's runtime gives.
    """

    nodes: tuple[DeviceNode, ...] = ()
    cdi: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    mounts: tuple[RuntimeMount, ...] = ()
    gids: tuple[int, ...] = ()
    runtime: str | None = None
    gpus: tuple[str, ...] = ()
    locks_memory: bool = False

    @property
    def parts(self) -> frozenset[str]:
        """The files of the host, CDI names and UUIDs that Docker is asked for. ``configured_parts`` reads them back."""
        return frozenset({*(node.host_path for node in self.nodes), *self.cdi, *self.gpus})

    def apply(self, body: dict[str, Any]) -> None:
        """Add the parts to ``body``, the body of POST /containers/create."""
        config = body["HostConfig"]
        if self.nodes:
            config["Devices"] = [
                {"PathOnHost": node.host_path, "PathInContainer": node.path, "CgroupPermissions": node.permissions}
                for node in self.nodes
            ]
        if self.cdi:
            config["DeviceRequests"] = [{"Driver": "cdi", "DeviceIDs": list(self.cdi)}]
        if self.gids:
            config["GroupAdd"] = [str(gid) for gid in self.gids]
        if self.runtime is not None:
            config["Runtime"] = self.runtime
        if self.locks_memory:
            others = [each for each in config.get("Ulimits", ()) if each["Name"] != "memlock"]
            config["Ulimits"] = [*others, {"Name": "memlock", "Soft": -1, "Hard": -1}]
        if self.environment:
            others = [each for each in body.get("Env", ()) if each.partition("=")[0] not in self.environment]
            body["Env"] = [*others, *(f"{name}={value}" for name, value in self.environment.items())]


def passthrough(devices: ContainerDevices, facts: DeviceFacts, runtime: str | None = None) -> Passthrough | str:
    """Return how the devices are given, or in words why they cannot be. ``runtime`` is the container's own runtime."""
    try:
        return _passthrough(devices, facts, runtime)
    except _Refused as refused:
        return str(refused)


class _Refused(Exception):
    """A device cannot be given. The text says why, and what to do."""


def _passthrough(devices: ContainerDevices, facts: DeviceFacts, runtime: str | None) -> Passthrough:
    if devices.lost is not None:
        raise _Refused(devices.lost)
    offered = {device.address: device for device in devices.offered}
    given = [offered[each.address] for each in devices.given]
    named = [device for device in given if device.type is DeviceType.CDI]
    gpus = [device for device in given if is_nvidia(device)]
    by_runtime = gpus if NVIDIA_RUNTIME in facts.runtimes else []
    nodes = [node for device in given if device not in named for node in _nodes(device, device in by_runtime, facts)]
    edits = [] if facts.engine_cdi else list(_edits(named, facts.cdi))
    environment: dict[str, str] = {}
    # Docker's own CDI sets variables for the first process only. As variables of the container, commands that are run
    # in the container later have them too. A file that Docker reads and this agent does not is left to Docker.
    for edit in (edit for _, edit in _parts(named, facts.cdi)) if facts.engine_cdi else edits:
        environment |= edit.environment
    nodes += [node for edit in edits for node in edit.nodes]
    if devices.given:
        environment[VARIABLE] = told(devices)
    environment |= _nvidia_variable(devices, gpus, facts, runtime)
    nodes = list(dict.fromkeys(nodes))
    return Passthrough(
        nodes=tuple(nodes),
        cdi=tuple(device.address for device in named) if facts.engine_cdi else (),
        environment=environment,
        mounts=tuple(dict.fromkeys(_mount(mount) for edit in edits for mount in edit.mounts)),
        gids=tuple(dict.fromkeys(gid for edit in edits for gid in edit.gids)),
        runtime=_runtime(by_runtime, runtime),
        gpus=tuple(uuid for device in by_runtime if (uuid := _uuid(device, facts)) is not None),
        locks_memory=any(node.host_path.startswith(_LOCKED_MEMORY) for node in nodes),
    )


def configured_parts(inspected: Mapping[str, Any]) -> frozenset[str]:
    """Return the parts (see ``Passthrough.parts``) that Docker's description of a container has."""
    config = inspected["HostConfig"]
    requests = (each for each in config.get("DeviceRequests") or () if each.get("Driver") == "cdi")
    found = {name for each in requests for name in each.get("DeviceIDs") or ()}
    found |= {each["PathOnHost"] for each in config.get("Devices") or ()}
    if config.get("Runtime") == NVIDIA_RUNTIME:
        variables = dict(each.partition("=")[::2] for each in inspected["Config"].get("Env") or ())
        found |= {uuid for uuid in variables.get(NVIDIA_VARIABLE, "").split(",") if uuid not in ("", _NO_GPU)}
    return frozenset(found)


def told(devices: ContainerDevices) -> str:
    """Return the value of ``ZUN_DEVICES``: addresses by name, ``gpu=0000:81:00.0,0000:c1:00.0 rng=/dev/hwrng``."""
    by_name: dict[str, list[str]] = {}
    for each in devices.given:
        by_name.setdefault(each.name, []).append(each.address)
    return " ".join(f"{name}={','.join(addresses)}" for name, addresses in by_name.items())


def told_in(environment: Iterable[str] | None) -> tuple[GivenDevice, ...]:
    """Return the devices that ``told`` wrote into a container's environment, in Docker's form ``NAME=value``.

    Their cells are unknown. ``request_body`` lets no user and no image write the variable.
    """
    text = next((each.partition("=")[2] for each in environment or () if each.startswith(f"{VARIABLE}=")), "")
    pairs = (each.partition("=") for each in text.split())
    return tuple(GivenDevice(name, address) for name, _, listed in pairs for address in listed.split(",") if address)


def is_nvidia(device: Device) -> bool:
    """Return whether the device is a GPU that NVIDIA's driver serves, or a part of such a GPU."""
    return device.vendor_id == "10de" and device.class_id.startswith("03") and device.driver == "nvidia"


def moved_cards(devices: ContainerDevices) -> tuple[str, ...]:
    """Return the addresses of the given PCI devices whose network interfaces, if any, follow the container's start.

    The device of a port is not among them: the network driver has its interface moved before the start.
    """
    addresses = {each.address for each in devices.given if port_of(each.name) is None}
    return tuple(device.address for device in devices.offered if device.address in addresses and device.vendor_id)


def _nodes(device: Device, by_runtime: bool, facts: DeviceFacts) -> Iterator[DeviceNode]:
    """Yield the files of a PCI device or a file. NVIDIA's runtime gives those of its GPUs itself."""
    if device.type is DeviceType.PATH:
        yield DeviceNode(device.address, device.address)  # a link: Docker follows it at each start
        return
    if by_runtime:
        return
    if not (device.nodes or device.interfaces or device.address in facts.network_cards):
        driver = f"its driver {device.driver} gives" if device.driver else "without a driver it has"
        raise _Refused(
            f"device {device.address}: {driver} no file under /dev and no network interface; bind the device to a "
            "driver that does, for example vfio-pci"
        )
    files = [*device.nodes]
    for start, companions in _COMPANIONS.items():
        if any(node.startswith(start) for node in device.nodes):
            files += companions
    if device.driver == "amdgpu":
        files.append("/dev/kfd")
    for file in files:
        if file in device.nodes or file in facts.shared_files:
            yield DeviceNode(file, file)


def _edits(named: Iterable[Device], cdi: CdiDevices) -> Iterator[Edits]:
    """Yield the edits for CDI devices. Raise _Refused for an edit that only Docker's own CDI can do."""
    for device in named:
        if device.address not in cdi.by_name:
            raise _Refused(f"CDI device {device.address} is described by no file in /etc/cdi and /var/run/cdi any more")
    for device, edits in _parts(named, cdi):
        if edits.others:
            raise _Refused(
                f"CDI device {device.address} needs {', '.join(edits.others)}, which only Docker's own CDI can do; use "
                'Docker 25 or later with "features": {"cdi": true} in daemon.json'
            )
        yield edits


def _parts(named: Iterable[Device], cdi: CdiDevices) -> Iterator[tuple[Device, Edits]]:
    """Yield each device with its edits. The edits that a file has for all of its devices come once, before them."""
    files = set()
    for device in named:
        if (found := cdi.by_name.get(device.address)) is not None:
            if found.file not in files:
                yield device, found.common
            files.add(found.file)
            yield device, found.edits


def _mount(mount: CdiMount) -> RuntimeMount:
    unknown = sorted(set(mount.options) - _BIND_OPTIONS)
    if unknown or mount.type not in ("", "none", "bind") or not mount.host_path.startswith("/"):
        what = f"option {unknown[0]}" if unknown else f"type {mount.type or 'none'}"
        raise _Refused(f"a CDI file mounts {mount.host_path} with {what}, which only Docker's own CDI can do")
    return RuntimeMount("bind", mount.host_path, mount.path, read_only="ro" in mount.options)


def _runtime(by_runtime: Iterable[Device], runtime: str | None) -> str | None:
    """Return NVIDIA's runtime if GPUs come by it. Raise _Refused for a container that has another runtime."""
    for device in by_runtime:
        if runtime not in (None, "", NVIDIA_RUNTIME):
            raise _Refused(
                f"device {device.address} needs the runtime {NVIDIA_RUNTIME}, and the container asks for {runtime}"
            )
        return NVIDIA_RUNTIME
    return None


def _nvidia_variable(
    devices: ContainerDevices, gpus: Iterable[Device], facts: DeviceFacts, runtime: str | None
) -> dict[str, str]:
    """Return the variable for NVIDIA's runtime.

    The runtime gives whatever GPUs the variable names, and images bring the value ``all``. So where GPUs are given by
    claims, a container of this runtime without a GPU is told that it has none.
    """
    needed = NVIDIA_RUNTIME in facts.runtimes
    uuids = []
    for device in gpus:
        uuid = _uuid(device, facts)
        if uuid is not None:
            uuids.append(uuid)
        elif needed and device.type is DeviceType.PART:
            raise _Refused(
                f"the UUID of MIG instance {device.address} is unknown, and NVIDIA's runtime gives the instance by it; "
                "install nvidia-ml-py beside zun-compute, or offer names of CDI instead of parts"
            )
        elif needed:
            raise _Refused(
                f"the UUID of GPU {device.address} is not in its folder of /proc/driver/nvidia/gpus; run nvidia-smi on "
                "the host, and see that nvidia-persistenced runs"
            )
    if uuids:
        return {NVIDIA_VARIABLE: ",".join(uuids)}
    used = runtime or facts.default_runtime
    if used == NVIDIA_RUNTIME and any(map(is_guarded, devices.offered)):
        return {NVIDIA_VARIABLE: _NO_GPU}
    return {}


def _uuid(device: Device, facts: DeviceFacts) -> str | None:
    """Return the UUID of an NVIDIA GPU or of a MIG instance, or None if unknown."""
    return device.uuid if device.type is DeviceType.PART else facts.gpus.get(device.address)


def is_guarded(device: Device) -> bool:
    """Return whether the device is a GPU that NVIDIA's runtime could give behind the back of the claims."""
    return is_nvidia(device) or (device.type is DeviceType.CDI and device.address.startswith("nvidia.com/"))
