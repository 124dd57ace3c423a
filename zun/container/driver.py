# SPDX-License-Identifier: Apache-2.0
"""The interface of a container runtime, as Protocols and frozen values.

Each Protocol describes one capability, so a part of the service names only the methods that it uses: the audit takes
an ``Auditor``, the shared pool takes ``Resources``. The Docker driver and the in-memory driver of the tests implement
all of them. Times are naive UTC, memory is in MiB, disk is in GiB.

Every method raises :class:`~zun.common.exceptions.Unavailable` if the runtime does not answer, and
:class:`~zun.common.exceptions.DockerError` if the runtime fails in a way that no other error describes. A method that
acts on one container raises :class:`~zun.common.exceptions.ContainerVanished` if the runtime has no object for the
container. It raises :class:`~zun.common.exceptions.Conflict` if the object is in the wrong state, for example paused
or not running. Exceptions from these rules are named in the method's docstring. A driver finds a container by its
uuid alone, because ``container_id`` of the row may be stale.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from zun.common.states import Status
from zun.topology import CpuSet
from zun.topology.device_request import GivenDevice
from zun.topology.devices import Device

#: Action of an event that says: events may have been missed, read the state of every container. The uuid is empty.
RESYNC = "resync"

#: Label with the project id on the runtime's networks and volumes, so that operators can search for them.
LABEL_PROJECT = "zun.project"
#: Label of named volumes, with the name that the project gave.
LABEL_VOLUME = "zun.volume"

#: Reason of a container whose process the kernel killed for lack of memory.
OUT_OF_MEMORY = "It used more memory than it has, so the kernel killed it. Give it more memory and start it again."

#: Folder of a container where its huge pages are mounted.
HUGE_PAGES_TARGET = "/dev/hugepages"

#: Name of the project's default network in the addresses of a container.
DEFAULT_NETWORK = "default"


class ContainerView(Protocol):
    """The fields of a container that a driver reads, and never writes. ``zun.objects.Container`` has all of them."""

    @property
    def uuid(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def container_id(self) -> str | None: ...
    @property
    def started_at(self) -> datetime | None: ...
    @property
    def status(self) -> Status | str | None: ...
    @property
    def image(self) -> str: ...
    @property
    def cpu(self) -> float | None: ...
    @property
    def cpu_policy(self) -> str | None: ...
    @property
    def memory(self) -> int | None: ...
    @property
    def disk(self) -> int | None: ...
    @property
    def command(self) -> Sequence[str] | None: ...
    @property
    def entrypoint(self) -> Sequence[str] | None: ...
    @property
    def workdir(self) -> str | None: ...
    @property
    def environment(self) -> Mapping[str, str] | None: ...
    @property
    def labels(self) -> Mapping[str, str] | None: ...
    @property
    def hostname(self) -> str | None: ...
    @property
    def restart_policy(self) -> Mapping[str, str] | None: ...
    @property
    def interactive(self) -> bool | None: ...
    @property
    def tty(self) -> bool | None: ...
    @property
    def auto_remove(self) -> bool | None: ...
    @property
    def privileged(self) -> bool | None: ...
    @property
    def capabilities(self) -> Sequence[str] | None: ...
    @property
    def healthcheck(self) -> Mapping[str, Any] | None: ...
    @property
    def runtime(self) -> str | None: ...
    @property
    def exposed_ports(self) -> Mapping[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class Plug:
    """The runtime's network of a new container, and its addresses there. If an address is None, the runtime chooses.

    With ``by_name``, the other containers of the network resolve the new container by its name. ``options`` are for
    the runtime's driver of the network. ``dns`` are addresses of name servers; without them the runtime chooses.
    """

    network: str
    ipv4: str | None = None
    ipv6: str | None = None
    by_name: bool = False
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    dns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimeMount:
    """One mount of a request to the runtime.

    ``source`` is a path of the host for a bind, the name of one of the runtime's volumes for a volume, and empty for a
    tmpfs, which has ``size_bytes`` instead. The runtime creates a missing volume with ``labels``. A hugetlbfs is like a
    tmpfs, with files in huge pages of ``page_kib``.
    """

    kind: Literal["bind", "volume", "tmpfs", "hugetlbfs"]
    source: str
    target: str
    read_only: bool = False
    size_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    page_kib: int = 0


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """The devices of one container: those that its claim gives to it, and all that its host offers to anybody."""

    given: tuple[GivenDevice, ...] = ()
    offered: tuple[Device, ...] = ()

    @property
    def lost(self) -> str | None:
        """Return in words which given devices the host does not offer any more, or None if it offers all."""
        here = {device.address for device in self.offered}
        gone = [f"{each.address} ({each.name})" for each in self.given if each.address not in here]
        if not gone:
            return None
        what = f"device {gone[0]} is" if len(gone) == 1 else f"devices {', '.join(gone)} are"
        return f"{what} gone from the host, or not selected by its [devices] device_spec any more"


NO_DEVICES = ContainerDevices()


@dataclass(frozen=True, slots=True)
class DeviceAccess:
    """The devices that a container is given now. Each is a file of the host, a CDI name or the UUID of a GPU.

    ``wanted`` is what the claim needs, ``configured`` what the runtime has for the next start. The others are empty
    without a process: ``missing`` are files that the container does not see as the host does, ``denied`` are files to
    which its control group gives no access. ``allowed`` are rules that give access to devices beyond the claim, for
    example ``c 10:183 rwm``. ``denied`` and ``allowed`` are None where the kernel does not tell the rules. ``lacking``
    are the PCI addresses of network cards that have no interface in the container's network.
    """

    wanted: frozenset[str]
    configured: frozenset[str]
    missing: tuple[str, ...] = ()
    denied: tuple[str, ...] | None = None
    allowed: tuple[str, ...] | None = None
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimeState:
    """The state of one container as its runtime describes it.

    - ``status`` is None if the row keeps its status: for an object that is being removed, and for an object that never
      started, unless the row is Creating or says that the container ran, for example Running.
    - ``pid`` is the id of the first process on the host, 0 without a process.
    - ``exit_code`` is None until a process has ended.
    - ``error`` is the runtime's own text, the reason of the status Unknown, or :data:`OUT_OF_MEMORY`.
    - ``cpuset_cpus`` and ``cpuset_mems`` are the runtime's *configuration* in the kernel's list form, for example
      ``0-3,8``, or "" if unset. :class:`KernelView` has the sets that the kernel enforces.
    - ``hostname`` is the host name inside the container.
    - ``addresses`` are the addresses that the runtime chose, by network; None if the runtime does not report them.
    - ``devices`` are those that the container was created with, ``dedicated_cpus`` the own CPUs of a mixed container as
      a kernel list, "" for other containers.
    - ``cpu`` (CPUs) and ``memory`` (MiB) are the configured limits, None without a limit. ``cap`` (CPUs) is CPU time
      that the container cannot exceed. Without a cap ``cpu`` is a weight: CPU shares by 1024, which are other shares
      for runtimes with another curve (see :mod:`zun.container.weights`).
    """

    container_id: str
    status: Status | None
    exit_code: int | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    pid: int
    cpuset_cpus: str
    cpuset_mems: str
    hostname: str | None = None
    addresses: Mapping[str, tuple[str, ...]] | None = None
    cpu: float | None = None
    memory: int | None = None
    cap: float | None = None
    devices: tuple[GivenDevice, ...] = ()
    dedicated_cpus: str = ""

    @property
    def never_started(self) -> bool:
        """True if the object was created and never started."""
        return self.started_at is None and self.finished_at is None


@dataclass(frozen=True, slots=True)
class KernelView:
    """The CPUs and memory nodes that the kernel allows a container.

    ``cpus`` and ``mems`` belong to the first process, which may narrow its own sets. ``cgroup_cpus`` and
    ``cgroup_mems`` belong to the control group: the limit that no process inside can widen. ``engine`` has the CPUs of
    the process that started the first one, for the runtime; None if they are unknown.
    """

    cpus: CpuSet
    mems: CpuSet
    cgroup_cpus: CpuSet
    cgroup_mems: CpuSet
    engine: CpuSet | None = None

    @property
    def inherits(self) -> bool:
        """True if the first process may use fewer CPUs than its group because the runtime itself may."""
        return inherited(self.cpus, self.cgroup_cpus, self.engine)


def inherited(cpus: CpuSet, cgroup_cpus: CpuSet, engine: CpuSet | None) -> bool:
    """Return whether ``cpus`` are what the mask of the ``engine`` leaves of a group, and not all of the group."""
    return engine is not None and cpus != cgroup_cpus and cpus == cgroup_cpus & engine


@dataclass(frozen=True, slots=True)
class ThreadGroup:
    """A set of ``count`` threads with the same CPUs and memory nodes. ``tid`` and ``name`` belong to one of them."""

    cpus: CpuSet
    mems: CpuSet
    count: int
    tid: int
    name: str


@dataclass(frozen=True, slots=True)
class ParentGroup:
    """A control group above a container's group, with its CPUs and memory nodes. ``path`` is its directory."""

    path: str
    cpus: CpuSet
    mems: CpuSet


@dataclass(frozen=True, slots=True)
class Throttling:
    """How often, and how long in all, the kernel stopped a container because its CPU time was used up."""

    periods: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PinningView:
    """The kernel's full report on where a container runs.

    ``parents`` begins with the nearest group. ``pages`` is bytes by memory node, for example ``{0: 4096}``, and empty
    if the kernel does not count pages. ``throttling`` is None if the kernel does not limit CPU time of groups.
    ``engine`` is as in ``KernelView``.
    ``weight`` is the group's weight of CPU time, 39 for one CPU; None if the kernel does not weigh groups.
    """

    cgroup_cpus: CpuSet
    cgroup_mems: CpuSet
    threads: tuple[ThreadGroup, ...]
    parents: tuple[ParentGroup, ...]
    pages: Mapping[int, int]
    throttling: Throttling | None = None
    engine: CpuSet | None = None
    weight: int | None = None


@dataclass(frozen=True, slots=True)
class HugePageView:
    """The huge pages of a running container as the kernel sees them. Sizes of pages are in KiB.

    - ``limits`` is the most bytes that the container can take, by page size, None for a size without a limit. The
      whole mapping is None if the kernel cannot limit huge pages, because the hugetlb controller is missing.
    - ``used`` is the number of pages in use by memory node and page size, for example ``{0: {2048: 3}}``. It is None
      if the kernel does not count pages by node.
    - ``mounted`` is the page size of the file system at :data:`HUGE_PAGES_TARGET`, None without one.
    """

    limits: Mapping[int, int | None] | None
    used: Mapping[int, Mapping[int, int]] | None
    mounted: int | None


@dataclass(frozen=True, slots=True)
class PageStock:
    """The huge pages of one size on one memory node: all of them, and those that nobody uses."""

    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Intruder:
    """A container or process that may run on ``cpus`` and belongs to no container of this host.

    For a container, ``id`` and ``name`` are those of its runtime. For a process, ``id`` is the path of its control
    group, ``name`` is the name and id of one process, for example ``cron (812)``, and ``count`` is the number of
    processes in the group with the same CPUs.
    """

    kind: Literal["container", "process"]
    id: str
    name: str
    cpus: CpuSet
    count: int = 1


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """An event of the container ``uuid``. The receiver reads the container's state to learn the outcome.

    ``action`` is one of Docker's names ``start die oom pause unpause rename destroy``, or :data:`RESYNC` with an empty
    uuid. An event may be delivered twice. A stop, a kill and a restart are reported as ``die`` and ``start``. Docker's
    other actions change no status.
    """

    uuid: str
    action: str


@dataclass(frozen=True, slots=True)
class Store:
    """Where an engine keeps its containers. An engine shows only the containers of the store that it uses.

    ``engine_id`` is the engine's id, ``folder`` is the folder of its data and ``inode`` the number of this folder in
    its file system, which is another one if a disk is not mounted there. ``driver`` stores the layers of images and
    containers, for example ``overlay2``. ``images`` is who keeps the images: ``containerd`` or the engine itself.
    """

    engine_id: str = ""
    folder: str = ""
    inode: int | None = None
    driver: str = ""
    images: str = ""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The engine that runs the containers of a host. A text is empty, and another value None, if it does not tell.

    ``runtime`` is the default runtime with its version, for example ``runc 1.3.6``. With ``live_restore``, containers
    run on while the engine is stopped.
    """

    name: str = ""
    version: str = ""
    api_version: str = ""
    runtime: str = ""
    cgroup_version: int | None = None
    live_restore: bool | None = None
    store: Store = Store()


NO_ENGINE = EngineFacts()

#: Called with the engine at each new connection, and a function that returns the uuids of the containers it shows.
Judge = Callable[[EngineFacts, Callable[[], AbstractSet[str]]], None]


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The runtime's description of its host. ``name`` is the agent's configured host name.

    ``cpu_flags`` are the flags of /proc/cpuinfo that all CPUs have. ``cdi_folders`` are where the runtime looks for CDI
    files, the lowest priority first; empty if it has no CDI of its own. ``cdi_names`` are the CDI devices that it found
    there, None if it does not tell. ``runs_healthchecks`` is False if the engine never runs the health checks of
    containers.
    """

    name: str
    mem_total_mib: int
    cpus: int
    disk_total_gib: int
    disk_quota_supported: bool
    labels: dict[str, str]
    runtimes: list[str]
    architecture: str
    os_type: str
    os: str
    kernel_version: str
    cpu_flags: frozenset[str] = frozenset()
    cdi_folders: tuple[str, ...] = ()
    cdi_names: frozenset[str] | None = None
    runs_healthchecks: bool = True
    engine: EngineFacts = NO_ENGINE


@dataclass(frozen=True, slots=True)
class RegistryAuth:
    """Credentials for one registry. ``repr`` leaves out the password, because logs and tracebacks show it."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"RegistryAuth(username={self.username!r})"


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The properties of an image. ``entrypoint`` and ``command`` are empty if the image sets none.

    ``image_id`` is of the runtime: one image can have another id at another runtime, or after it was saved and loaded.
    ``size`` is in bytes of the disk, 0 if unknown. ``digests`` are names by digest as the runtime spells them, for
    example ``nginx@sha256:0d17...``. They prove no registry: with containerd's image store, an image that was made or
    imported on the host has one, too, of its id. ``names`` are those on the host, with their tags.
    """

    image_id: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    size: int = 0
    digests: tuple[str, ...] = ()
    names: tuple[str, ...] = field(default=(), compare=False)

    def invocation(
        self, entrypoint: Sequence[str] | None, command: Sequence[str] | None
    ) -> tuple[list[str] | None, list[str] | None]:
        """Return the ``(entrypoint, command)`` that a container of this image runs, each None if empty.

        Docker's rule: the image's command counts unless the user gave an entrypoint or a command, because the image's
        command was written for the image's entrypoint.
        """
        if entrypoint:
            return list(entrypoint), list(command) if command else None
        chosen = command or self.command
        return list(self.entrypoint) or None, list(chosen) or None


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image on the host under one name. ``size`` is in bytes, ``digests`` are like those of ImageFacts."""

    name: str
    tags: tuple[str, ...]
    image_id: str
    size: int
    digests: tuple[str, ...] = ()


class Lifecycle(Protocol):
    """Creates, moves and removes containers. Every method may be repeated after a crash in its middle."""

    def create(
        self,
        container: ContainerView,
        *,
        cpuset_cpus: str,
        cpuset_mems: str,
        image: str | None = None,
        plug: Plug | None = None,
        mounts: Sequence[RuntimeMount] = (),
        join: str | None = None,
        memory: int | None = None,
        devices: ContainerDevices = NO_DEVICES,
        dedicated_cpus: str = "",
    ) -> str:
        """Create the object without starting it, and return the runtime's id of the object.

        - The cpusets are kernel lists, for example ``0-3,8``; "" sets no limit. They are in force before the first
          process exists.
        - ``image`` is the full name of the container's image, if it differs from ``container.image``.
        - ``plug`` is the first network; None is the runtime's default network. Exposed ports with a ``host_port`` are
          published there.
        - ``memory`` is the limit of ordinary memory in MiB, if it differs from ``container.memory``.
        - ``join`` is the uuid of a running container of this host. The new container then uses the network and IPC
          namespaces of that container instead of a network of its own.
        - ``devices`` are in the container from its first process on, except network interfaces.
        - ``dedicated_cpus`` are the own CPUs of a mixed container, a kernel list. Its first process finds them in the
          variable ``ZUN_DEDICATED_CPUS``.

        If an earlier attempt of this host left an object behind, ``create`` adopts the object: it moves the object to
        these cpusets if they differ, connects the object to its first network, changes nothing else and returns the
        object's id. An object with other devices is replaced.

        DeviceUnusable if a device is gone or cannot be given, or if the interface of a network card is in the network
        of somebody else. ImageNotFound if the image is not on the host (:meth:`Images.pull_image` brings it).
        ContainerAlreadyExists if an object of another host has the name.
        """
        ...

    def start(self, container: ContainerView) -> None:
        """Start the container. A container that runs already is left as it is."""
        ...

    def join_interfaces(self, container: ContainerView, devices: ContainerDevices) -> None:
        """Move the network interfaces of the container's devices into the container, if it runs and lacks them.

        The kernel gives them back to the host when the last process of the container ends. DeviceUnusable if an
        interface cannot be moved, or if a card has its interfaces in the network of somebody else.
        """
        ...

    def stop(self, container: ContainerView, timeout: int | None = None) -> None:
        """Ask the process to end, and kill the process after ``timeout`` seconds (None: the runtime's choice).

        A container that has ended already is left as it is.
        """
        ...

    def reboot(self, container: ContainerView, timeout: int | None = None) -> None:
        """Stop and start the container, keeping the object. A container that does not run is only started."""
        ...

    def pause(self, container: ContainerView) -> None: ...

    def unpause(self, container: ContainerView) -> None: ...

    def kill(self, container: ContainerView, signal: str | None = None) -> None:
        """Send ``signal``: a name or a number, SIGKILL for None. InvalidValue for an unknown signal."""
        ...

    def delete(self, container: ContainerView, *, force: bool = False) -> None:
        """Remove the object and return when its processes are gone. Nothing happens if the object is missing.

        Conflict for a running container, unless ``force``. Objects of other hosts are left alone.
        """
        ...


class Inspector(Protocol):
    """Reads the state of containers."""

    def show(self, container: ContainerView) -> RuntimeState | None:
        """Return the state of the container, or None if this host has no object for it."""
        ...

    def list(self) -> dict[str, RuntimeState]:
        """Return the state of every object of this host, by container uuid.

        The method does not know the rows, so ``status`` of an object that never started is None, where ``show`` may
        return Created.
        """
        ...

    def of_other_hosts(self) -> Mapping[str, AbstractSet[str]]:
        """Return the uuids of containers whose objects belong to hosts of other names, by host name."""
        ...

    def kernel_view(self, container: ContainerView, state: RuntimeState) -> KernelView | None:
        """Return the limits that the kernel enforces now, or None if the process of ``state`` is gone.

        DockerError if the kernel's files cannot be read, so that an unreadable limit never passes for an intact one.
        """
        ...

    def use_all_cpus(self, container: ContainerView, state: RuntimeState) -> None:
        """Let the first process of ``state`` use all CPUs of its control group, if it inherits fewer of the runtime.

        A failure is logged: an audit finds such a process.
        """
        ...


class Auditor(Protocol):
    """Reads where threads and pages really are. The cost grows with the number of threads and processes."""

    def pinning_view(self, container: ContainerView, state: RuntimeState) -> PinningView | None:
        """Return the CPUs and memory nodes of every thread and page, or None if the process of ``state`` is gone.

        DockerError if the kernel's files cannot be read.
        """
        ...

    def device_access(self, container: ContainerView, state: RuntimeState, devices: ContainerDevices) -> DeviceAccess:
        """Return how ``devices`` are given to the container.

        DeviceUnusable if they cannot be given now: a device is gone, or bound to another driver. DockerError if the
        kernel's files cannot be read.
        """
        ...

    def intruders(
        self, cpus: CpuSet, known: Callable[[str], bool], *, processes: bool = True, unplaced: bool = False
    ) -> Sequence[Intruder]:
        """Return everything that may run on some of ``cpus``, except this host's containers that ``known`` accepts.

        ``known`` is called with the uuid of a container. With ``processes``, processes outside of containers are
        checked too, except kernel threads. A process that may use the same CPUs as the host's first process was placed
        by nobody and counts only with ``unplaced``.
        """
        ...


class Resources(Protocol):
    """Changes the limits of a container, running or not."""

    def update(
        self,
        container: ContainerView,
        *,
        cpu: float | None = None,
        memory: int | None = None,
        cpuset_cpus: str | None = None,
        cpuset_mems: str | None = None,
    ) -> None:
        """Change the given limits in one call to the runtime, and leave the limits that are None.

        ``cpu`` depends on the container's ``cpu_policy``: a weight or quota if shared, no limit if dedicated. Invalid
        for an empty cpuset, which Docker would accept and ignore. To unpin a container, send the full list of CPUs.
        """
        ...


class HugePages(Protocol):
    """Limits and reads the huge pages of containers."""

    def limit_pages(self, container: ContainerView, state: RuntimeState, pages: Mapping[int, int]) -> None:
        """Limit the container to these huge pages, by size in KiB, and to none of every other size.

        The kernel forgets the limits when the process of ``state`` ends, so they are set after each start. Nothing
        happens without a process. Where the kernel cannot limit huge pages, the driver logs this once and goes on.

        Conflict if the container uses more pages than that. DockerError if the kernel does not show the new limits.
        """
        ...

    def huge_pages(self, container: ContainerView, state: RuntimeState) -> HugePageView | None:
        """Return the huge pages of the container, or None if the process of ``state`` is gone.

        DockerError if the kernel's files cannot be read.
        """
        ...

    def page_stock(self) -> Mapping[int, Mapping[int, PageStock]]:
        """Return the huge pages of the host by memory node and size in KiB, sizes without pages left out."""
        ...


class Console(Protocol):
    """Reads the log, processes and statistics of a container, and runs commands inside it."""

    def execute(self, container: ContainerView, command: Sequence[str], timeout: float) -> tuple[str, int]:
        """Run ``command`` without a shell and return its output and exit code. The output mixes stdout and stderr.

        Conflict if the command is still running after ``timeout`` seconds. The command then goes on inside the
        container.
        """
        ...

    def logs(
        self,
        container: ContainerView,
        *,
        stdout: bool = True,
        stderr: bool = True,
        timestamps: bool = False,
        tail: str | int | None = "all",
        since: str | int | float | None = None,
    ) -> str:
        """Return the log as text. Conflict if the text is too large to hold in memory.

        ``tail`` is a number of lines; any other text means all lines. ``since`` is epoch seconds, for example
        1767225600, or ``YYYY-MM-DD HH:MM:SS,mmm`` in UTC, else InvalidValue.
        """
        ...

    def top(self, container: ContainerView) -> Sequence[Mapping[str, str]]:
        """Return the processes of the container, each with every field of ``processes.FIELDS``."""
        ...

    def stats(self, container: ContainerView) -> dict[str, Any]:
        """Return the resource use under the API's member names. Conflict if the container is not running."""
        ...


class Archives(Protocol):
    """Reads and writes the files of a container, running or not, as tar streams."""

    def get_archive(self, container: ContainerView, path: str) -> tuple[Iterator[bytes], dict[str, Any]]:
        """Return a tar of the file or directory at ``path``, and its ``name``, ``size``, ``mode``, ``mtime`` and
        ``linkTarget``.

        InvalidValue if nothing is at ``path``. A caller that stops reading before the end closes the iterator.
        """
        ...

    def put_archive(self, container: ContainerView, path: str, chunks: Iterable[bytes]) -> None:
        """Unpack a tar in the directory ``path``. InvalidValue if ``path`` is no directory or ``chunks`` is no tar."""
        ...


class Stream(Protocol):
    """Both directions of one terminal or command, as raw bytes. One thread may read while another one writes."""

    def receive(self) -> bytes:
        """Wait for output and return it; b"" at the end."""
        ...

    def send(self, data: bytes) -> None:
        """Send ``data`` as input. OSError if the other side is gone."""
        ...

    def exit_code(self) -> int | None:
        """Return the exit code of a command whose output has ended, None if it still runs or was only attached to."""
        ...

    def close(self) -> None:
        """Close the connection, and end a ``receive`` that waits. The process goes on. Closing twice is harmless."""
        ...


class Terminals(Protocol):
    """Connects to processes in a container. A command is identified by the id that ``create_exec`` returned."""

    def attach(self, container: ContainerView) -> Stream:
        """Return a stream of the first process's input, and of its output from now on."""
        ...

    def create_exec(self, container: ContainerView, command: Sequence[str], *, interactive: bool) -> str:
        """Prepare ``command`` without starting it, and return its id of 64 hexadecimal digits.

        An ``interactive`` command has a terminal and an input.
        """
        ...

    def open_exec(self, container: ContainerView, exec_id: str) -> Stream:
        """Start a prepared command. InvalidValue for an unknown id, Conflict if the command was started before."""
        ...

    def resize(self, container: ContainerView, *, width: int, height: int) -> None:
        """Set the size of the first process's terminal in characters. Nothing happens if the process has ended."""
        ...

    def resize_exec(self, container: ContainerView, exec_id: str, *, width: int, height: int) -> None:
        """Set the size of a command's terminal in characters. Nothing happens if the command has ended.

        InvalidValue for an unknown command, Conflict for a command that nobody starts.
        """
        ...


class Images(Protocol):
    """Pulls, names, lists and removes the images of the host."""

    def find_image(self, image: str) -> ImageFacts | None:
        """Return the host's image of this name or full id, or None if the host has no such image."""
        ...

    def image_digest(self, image: str, auth: RegistryAuth | None = None) -> str:
        """Return the digest that the registry now has for ``image``. ImageNotFound if it has none for ``auth``."""
        ...

    def pull_image(
        self, image: str, auth: RegistryAuth | None = None, progress: Callable[[str], None] | None = None
    ) -> ImageFacts:
        """Pull ``image`` from its registry and return its properties. ImageNotFound if the registry has no such image.

        ``progress`` is called often during the pull, with a text for people.
        """
        ...

    def tag_image(self, image: str, name: str) -> None:
        """Give ``image`` the name ``name``, with or without a tag. An image that had this name loses it."""
        ...

    def image_digests(self) -> Sequence[str]:
        """Return the ``digests`` of every image on the host."""
        ...

    def remove_image(self, image: str) -> None:
        """Remove the image of this name, if there is one. Conflict while a container uses the image."""
        ...

    def commit(self, container: ContainerView, name: str) -> ImageFacts:
        """Make an image called ``name`` from the container's files and its configuration.

        The container's processes are paused meanwhile. The image does not say from which container it was made, nor on
        which CPUs that container ran.
        """
        ...

    def load_image(self, archive: Iterable[bytes]) -> None:
        """Read an image from a tar archive, which names the image. Invalid if the archive is of no image.

        A name of the archive is taken from the image that had it.
        """
        ...

    def save_image(self, image: str) -> Iterator[bytes]:
        """Return an archive of ``image`` in pieces, for ``load_image``. ImageNotFound if the host lacks the image."""
        ...

    def find_images(self, term: str) -> Sequence[LocalImage]:
        """Return the host's images whose name without the tag contains ``term``, sorted by name.

        Images that the service keeps under names of its own are left out.
        """
        ...

    def images_of(self, repository: str) -> Sequence[LocalImage]:
        """Return the host's images of exactly this name, one for each image with its tags."""
        ...

    def search_images(self, term: str) -> Sequence[Mapping[str, Any]]:
        """Search a registry and return the name, description and metadata of each image found.

        ``term`` may name the registry, for example ``registry.example.org/nginx``; Docker's own registry is the
        default. Unavailable if the registry cannot be searched.
        """
        ...


class Volumes(Protocol):
    def remove_volume(self, name: str) -> None:
        """Remove the volume and its files, if the volume exists.

        Conflict while a container mounts the volume, and if the volume does not have LABEL_VOLUME.
        """
        ...


class EventSource(Protocol):
    """Reports changes of containers as they happen."""

    def events(self, stop: threading.Event) -> Iterator[RuntimeEvent]:
        """Yield the events of this host's containers, and end soon after ``stop`` is set.

        The first event of every connection is a :data:`RESYNC`. A lost connection is opened again, with attempts for
        as long as it takes.
        """
        ...


class Facts(Protocol):
    """Describes the host."""

    def facts(self) -> HostFacts: ...

    def judged_by(self, judge: Judge) -> None:
        """Call ``judge`` with the engine at each new connection, before anything else is asked.

        If ``judge`` raises Unavailable, every method does, and each asks again.
        """
        ...

    def ping(self) -> None:
        """Raise Unavailable if the runtime does not answer within seconds, even if it hangs."""
        ...


@runtime_checkable
class ContainerDriver(
    Lifecycle,
    Inspector,
    Auditor,
    Resources,
    HugePages,
    Console,
    Archives,
    Terminals,
    Images,
    Volumes,
    EventSource,
    Facts,
    Protocol,
):
    """All capabilities of a runtime, as an agent uses them."""
