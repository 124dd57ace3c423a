# SPDX-License-Identifier: Apache-2.0
"""What the rest of the service may ask of a container runtime.

The runtime is described by small Protocols, one a capability, so that a part of the service names only what
it uses (the audit an ``Auditor``, the shared pool ``Resources``), and so that an in-memory driver can stand
in for Docker everywhere. Values handed out are frozen; times are naive UTC; memory is in MiB, disk in GiB.

Every method may raise :class:`~zun.common.exceptions.Unavailable` when the runtime does not answer and
:class:`~zun.common.exceptions.DockerError` when it fails in a way that no other error describes. Methods
which act on one container raise :class:`~zun.common.exceptions.ContainerVanished` when the runtime has no
such object and another :class:`~zun.common.exceptions.Conflict` when the object is in the wrong state (not
running, paused, ...), unless their own text says otherwise. A container is found by its uuid alone:
``container_id`` of the row may be stale.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from zun.common.states import Status
from zun.topology import CpuSet

#: Action of the event which says: events may have been missed, read everything again. It carries no uuid.
RESYNC = "resync"

#: Of networks and volumes that a runtime has for a project: operators look for them by this.
LABEL_PROJECT = "zun.project"

#: Why a container was stopped that nobody stopped.
OUT_OF_MEMORY = "It used more memory than it has, so the kernel killed it. Give it more memory and start it again."

#: Statuses of rows that an object which never ran has nothing to say to (lifecycle contract, section 6).
KEPT_WHEN_NEVER_STARTED = frozenset(
    {
        Status.CREATED,
        Status.RESTARTING,
        Status.ERROR,
        Status.REBUILDING,
        Status.DELETING,
        Status.DELETED,
        Status.DEAD,
    }
)


class ContainerView(Protocol):
    """The part of a container a driver reads; ``zun.objects.Container`` has all of it. Never written to."""

    @property
    def uuid(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str | None: ...
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
    def healthcheck(self) -> Mapping[str, Any] | None: ...
    @property
    def runtime(self) -> str | None: ...
    @property
    def exposed_ports(self) -> Mapping[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class Plug:
    """What network of the runtime a new container is put on, and with which addresses (None: the runtime's choice).

    ``network`` may be ``container:ID``: the one whose network it shares has the addresses.
    """

    network: str
    ipv4: str | None = None
    ipv6: str | None = None


@dataclass(frozen=True, slots=True)
class RuntimeMount:
    """One mount as the runtime is asked for it.

    ``source`` is a path of the host (bind), the name of a volume of the runtime's, which is made with ``labels`` when
    it is not there (volume), or nothing (tmpfs, which has a size).
    """

    kind: Literal["bind", "volume", "tmpfs"]
    source: str
    target: str
    read_only: bool = False
    size_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class RuntimeState:
    """One container as its runtime describes it.

    ``status`` is None when the runtime has nothing to add to what the row says: an object that was never
    started says so only to a row that is still ``Creating`` (see :meth:`Inspector.list`), and one that is
    being removed is about to be no more. ``pid`` is the
    first process's id on the host, 0 when there is none. ``exit_code`` is None until a process has ended.
    ``error`` is the runtime's own text, why ``status`` is Unknown, or :data:`OUT_OF_MEMORY`.
    ``cpuset_cpus`` and ``cpuset_mems`` are the runtime's *configuration* in the kernel's list form, "" when
    unset; what the kernel does with it is :class:`KernelView`. ``hostname`` is what the container calls itself.
    ``addresses`` are those that the runtime chose, on its own networks, by network; None when it does not tell.
    ``cpu`` (CPUs) and ``memory`` (MiB) are the limits it is configured with, None where it has none; ``cpu`` may be a
    weight, ``cap`` (CPUs) is none: time that it cannot exceed.
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

    @property
    def never_started(self) -> bool:
        """True for an object that was created and nothing more."""
        return self.started_at is None and self.finished_at is None


@dataclass(frozen=True, slots=True)
class KernelView:
    """What the kernel allows a container's first process, and its control group as a whole.

    ``cpus`` and ``mems`` come from the process (a process may narrow its own set), ``cgroup_cpus`` and
    ``cgroup_mems`` from the group, which is the limit nobody inside can widen.
    """

    cpus: CpuSet
    mems: CpuSet
    cgroup_cpus: CpuSet
    cgroup_mems: CpuSet


@dataclass(frozen=True, slots=True)
class ThreadGroup:
    """``count`` threads that may run on the same CPUs and memory nodes; ``tid`` and ``name`` are of one of them."""

    cpus: CpuSet
    mems: CpuSet
    count: int
    tid: int
    name: str


@dataclass(frozen=True, slots=True)
class ParentGroup:
    """A control group above a container's, and what it has to give. ``path`` is its directory on the host."""

    path: str
    cpus: CpuSet
    mems: CpuSet


@dataclass(frozen=True, slots=True)
class PinningView:
    """Everything the kernel tells about where a container runs.

    ``parents`` begins with the nearest. ``pages`` is bytes by memory node, empty when the kernel does not count them.
    """

    cgroup_cpus: CpuSet
    cgroup_mems: CpuSet
    threads: tuple[ThreadGroup, ...]
    parents: tuple[ParentGroup, ...]
    pages: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Intruder:
    """Something that is no container of this host and may run on ``cpus``.

    A container has its runtime's id and name; a process the path of its control group (``id``), the name and id of one
    process of it (``name``), and ``count`` of them are alike.
    """

    kind: Literal["container", "process"]
    id: str
    name: str
    cpus: CpuSet
    count: int = 1


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """Something happened to the container ``uuid``; read its state to learn what.

    Actions are Docker's names (``start die oom pause unpause rename destroy``) or :data:`RESYNC` with an
    empty uuid. An event may be delivered twice. What these do not cover changes nothing that a state tells: a
    stop, a kill and a restart are made of ``die`` and ``start``.
    """

    uuid: str
    action: str


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the runtime says of its host; ``name`` is the agent's host name, not the machine's."""

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


@dataclass(frozen=True, slots=True)
class RegistryAuth:
    """Credentials for one registry."""

    username: str
    password: str

    def __repr__(self) -> str:
        # A record of this kind ends up in logs and tracebacks sooner or later.
        return f"RegistryAuth(username={self.username!r})"


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What an image brings along. ``entrypoint`` and ``command`` are empty when the image sets none.

    ``size`` is in bytes, as far as it is known. ``digests`` are what registries call it, NAME@DIGEST each, in the
    runtime's own spelling; what was never at a registry has none.
    """

    image_id: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    size: int = 0
    digests: tuple[str, ...] = ()

    def invocation(
        self, entrypoint: Sequence[str] | None, command: Sequence[str] | None
    ) -> tuple[list[str] | None, list[str] | None]:
        """Return the ``(entrypoint, command)`` that will really run, each None when there is none.

        The image's command only counts when the user gave neither of the two: it was written for the image's
        own entrypoint (this is Docker's rule).
        """
        if entrypoint:
            return list(entrypoint), list(command) if command else None
        chosen = command or self.command
        return list(self.entrypoint) or None, list(chosen) or None


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image on the host under one name. ``size`` is in bytes, ``digests`` as for ImageFacts."""

    name: str
    tags: tuple[str, ...]
    image_id: str
    size: int
    digests: tuple[str, ...] = ()


class Lifecycle(Protocol):
    """Makes, moves and removes containers. Every method is safe to repeat after a crash in its middle."""

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
    ) -> str:
        """Create the object, not started, and return the runtime's id of it.

        ``image`` is the container's under its whole name, if that is another one. ``plug`` is its first network, None
        the runtime's default one. Exposed ports that have a ``host_port`` are published there. ``join`` is the uuid of
        a container of this host, which runs and whose network and IPC namespaces become its own, instead.
        The cpusets are kernel lists ("" leaves one open) and are in force before the first process exists. An
        object that an earlier attempt of this host left behind is adopted: it is moved to these cpusets if it
        has others, is else unchanged, and its id is returned.
        ImageNotFound when the image is not on the host (:meth:`Images.pull_image` brings it); ContainerAlreadyExists
        when the name is taken by an object that is not this host's.
        """
        ...

    def start(self, container: ContainerView) -> None:
        """Start it; nothing happens if it runs already."""
        ...

    def stop(self, container: ContainerView, timeout: int | None = None) -> None:
        """Ask it to end, kill it after ``timeout`` seconds (None: the runtime's choice). Fine if it has."""
        ...

    def reboot(self, container: ContainerView, timeout: int | None = None) -> None:
        """Stop and start it, keeping the object. A stopped or never started one is started."""
        ...

    def pause(self, container: ContainerView) -> None: ...

    def unpause(self, container: ContainerView) -> None: ...

    def kill(self, container: ContainerView, signal: str | None = None) -> None:
        """Send ``signal`` (name or number; None: SIGKILL). InvalidValue for one the runtime does not know."""
        ...

    def delete(self, container: ContainerView, *, force: bool = False) -> None:
        """Remove the object, and when it returns its processes are gone. A missing object is fine.

        Without ``force`` a running container is a Conflict. An object of another host is never touched.
        """
        ...


class Inspector(Protocol):
    """Tells what is; changes nothing."""

    def show(self, container: ContainerView) -> RuntimeState | None:
        """Return the state, or None when this host has no such object."""
        ...

    def list(self) -> dict[str, RuntimeState]:
        """Return the state of every object of this host, by container uuid.

        The rows are not known here, so a never started object has status None; ``show`` tells more.
        """
        ...

    def of_other_hosts(self) -> Mapping[str, AbstractSet[str]]:
        """Return the uuids of the containers whose objects were made for hosts of other names, by these."""
        ...

    def kernel_view(self, container: ContainerView, state: RuntimeState) -> KernelView | None:
        """Return what the kernel enforces now, or None when the process that ``state`` names is gone.

        DockerError when the kernel's files cannot be read: an unreadable limit is never reported as a kept
        one.
        """
        ...


class Auditor(Protocol):
    """Tells where things really run; changes nothing. Its cost grows with the number of threads and processes."""

    def pinning_view(self, container: ContainerView, state: RuntimeState) -> PinningView | None:
        """Return what the kernel does with every thread and page, or None when the process ``state`` names is gone.

        DockerError when the kernel's files cannot be read.
        """
        ...

    def intruders(
        self, cpus: CpuSet, known: Callable[[str], bool], *, processes: bool = True, unplaced: bool = False
    ) -> Sequence[Intruder]:
        """Return what may run on some of ``cpus`` and is no container of this host that ``known`` accepts by uuid.

        ``processes``: look at those outside of containers as well, except the kernel's own. One that may run wherever
        the host's first process may was not placed by anybody, and counts only with ``unplaced``.
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
        """Change what is given, leave what is None. All of it is one call to the runtime.

        ``cpu`` is read by the container's ``cpu_policy``: a weight (or quota) when shared, no limit when
        dedicated. Invalid for an empty cpuset: Docker accepts one and changes nothing. To unpin, send the
        full list.
        """
        ...


class Console(Protocol):
    """Looks into a container and runs commands inside it."""

    def execute(self, container: ContainerView, command: Sequence[str], timeout: float) -> tuple[str, int]:
        """Run ``command`` without a shell; return its output, both streams as they came, and its exit code.

        When ``timeout`` (seconds) is over the command is abandoned (it goes on inside the container) and Conflict is
        raised.
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
        """Return the whole log as text. ``tail`` that is no number means all. Conflict when that is too much to hold.

        ``since`` is epoch seconds or ``YYYY-MM-DD HH:MM:SS,mmm`` in UTC, else InvalidValue.
        """
        ...

    def top(self, container: ContainerView, ps_args: str | None = None) -> dict[str, Any]:
        """Return ``{"Titles": [str], "Processes": [[str, ...], ...]}``."""
        ...

    def stats(self, container: ContainerView) -> dict[str, Any]:
        """Return the resource use, under the member names of the API. Conflict when it is not running."""
        ...


class Archives(Protocol):
    """Reads and writes files of a container, running or not, as tar streams."""

    def get_archive(self, container: ContainerView, path: str) -> tuple[Iterator[bytes], dict[str, Any]]:
        """Return the tar of what is at ``path``, and ``name size mode mtime linkTarget`` of it.

        InvalidValue when there is nothing. Whoever stops reading before the end closes the iterator.
        """
        ...

    def put_archive(self, container: ContainerView, path: str, chunks: Iterable[bytes]) -> None:
        """Unpack a tar in the directory ``path``. InvalidValue for what is no directory or no tar."""
        ...


class Stream(Protocol):
    """Both directions of one terminal or command: bytes as they are. Reading and writing may be in two threads."""

    def receive(self) -> bytes:
        """What came since, waiting for something; empty at the end."""
        ...

    def send(self, data: bytes) -> None:
        """Type ``data``. OSError when the other side is gone."""
        ...

    def close(self) -> None:
        """Let go, also of a ``receive`` that waits. What runs is left running. Twice is harmless."""
        ...


class Terminals(Protocol):
    """Talks to what runs in a container. A command is named by the id that ``create_exec`` gave it."""

    def attach(self, container: ContainerView) -> Stream:
        """The first process's own input and output from now on."""
        ...

    def create_exec(self, container: ContainerView, command: Sequence[str], *, interactive: bool) -> str:
        """Prepare ``command`` without starting it and return its id, 64 hexadecimal digits.

        ``interactive`` gives it a terminal and an input.
        """
        ...

    def open_exec(self, container: ContainerView, exec_id: str) -> Stream:
        """Start a prepared command. InvalidValue for an unknown one, Conflict for one that was started."""
        ...

    def resize(self, container: ContainerView, *, width: int, height: int) -> None:
        """Tell the first process the size of its terminal, in characters."""
        ...

    def resize_exec(self, container: ContainerView, exec_id: str, *, width: int, height: int) -> None:
        """The same for a command. InvalidValue for an unknown one."""
        ...


class Images(Protocol):
    """Brings images to the host."""

    def find_image(self, image: str) -> ImageFacts | None:
        """Return what the host has under this name or whole id, None when that is nothing."""
        ...

    def image_digest(self, image: str, auth: RegistryAuth | None = None) -> str:
        """Return the digest that the registry has for ``image`` now. ImageNotFound when it has none for ``auth``."""
        ...

    def pull_image(
        self, image: str, auth: RegistryAuth | None = None, progress: Callable[[str], None] | None = None
    ) -> ImageFacts:
        """Bring what the registry has for ``image`` now, and tell about it; ImageNotFound when that is nothing.

        ``progress`` is called with a text for people as the pull goes on, often.
        """
        ...

    def tag_image(self, image: str, name: str) -> None:
        """Let ``name``, which has a tag or none, be a name of ``image``, and of no other."""
        ...

    def image_digests(self) -> Sequence[str]:
        """Return ``digests`` of all images on the host."""
        ...

    def remove_image(self, image: str) -> None:
        """Remove what has this name. Fine if nothing has it; Conflict while a container is made of it."""
        ...

    def commit(self, container: ContainerView, name: str) -> ImageFacts:
        """Make an image called ``name`` of the container's files and of how it is run.

        Its processes stand still meanwhile, unless it is paused anyway. Nothing of which container it was made of,
        or where that ran, is in the image.
        """
        ...

    def find_images(self, term: str) -> Sequence[LocalImage]:
        """Return the images on the host with ``term`` in their name without the tag, by name."""
        ...

    def search_images(self, term: str) -> Sequence[Mapping[str, Any]]:
        """Return what the registry that ``term`` names, or Docker's own, knows: name, description, metadata.

        Unavailable when the registry cannot be asked.
        """
        ...


class EventSource(Protocol):
    """Tells about changes nobody here asked for."""

    def events(self, stop: threading.Event) -> Iterator[RuntimeEvent]:
        """Yield this host's events until ``stop`` is set; then end soon.

        The first event, and the first after every lost connection, is a :data:`RESYNC`. A lost connection is
        made again, sooner or later, however long that takes.
        """
        ...


class Facts(Protocol):
    """Describes the host."""

    def facts(self) -> HostFacts: ...

    def ping(self) -> None:
        """Raise Unavailable when the runtime does not answer, within seconds also when it hangs."""
        ...


@runtime_checkable
class ContainerDriver(
    Lifecycle,
    Inspector,
    Auditor,
    Resources,
    Console,
    Archives,
    Terminals,
    Images,
    EventSource,
    Facts,
    Protocol,
):
    """Every capability; what an agent is given."""
