# SPDX-License-Identifier: Apache-2.0
"""A container runtime in memory.

It follows the same Protocols as the Docker driver and the same tests hold it to Docker's behaviour, so that
the rest of the service is tested, and measured with thousands of containers, on a real part instead of mocks.
Every operation on one container costs the same however many there are.
"""

import hashlib
import queue
import re
import signal as signals
import threading
import time
import uuid as uuids
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any, Self

from oslo_config import cfg

from zun.common import exceptions
from zun.common.image_reference import LOCAL
from zun.container.driver import (
    RESYNC,
    ContainerView,
    HostFacts,
    ImageFacts,
    Intruder,
    KernelView,
    LocalImage,
    PinningView,
    Plug,
    RegistryAuth,
    RuntimeEvent,
    RuntimeMount,
    RuntimeState,
    Stream,
)
from zun.container.fake_audit import AuditedKernel
from zun.container.fake_runtime import (
    KILLED,
    TERMINATED,
    InMemoryRuntime,
    Outcome,
    RuntimeObject,
    pretend,
    signal_number,
    utcnow,
)
from zun.container.fake_terminals import Echo, PreparedCommand
from zun.container.logs import since_epoch, tail_lines
from zun.topology import CpuSet

DEFAULT_FACTS = HostFacts(
    name="host-1",
    mem_total_mib=16384,
    cpus=8,
    disk_total_gib=100,
    disk_quota_supported=False,
    labels={},
    runtimes=["runc"],
    architecture="x86_64",
    os_type="linux",
    os="In-memory",
    kernel_version="6.1.0",
)


_UNTAGGED = re.compile(r":[^:/@]+@")


@dataclass(frozen=True, slots=True)
class Update:
    """One call of ``update``, as it was made."""

    uuid: str
    cpu: float | None
    memory: int | None
    cpuset_cpus: str | None
    cpuset_mems: str | None


@dataclass(frozen=True, slots=True)
class Disobedience:
    """What the kernel shows instead of what was configured. ``repairable``: an update or a start ends it."""

    cpus: CpuSet | None
    mems: CpuSet | None
    repairable: bool


@dataclass(slots=True)
class _Failure:
    error: Exception
    times: int
    after: bool


class InMemoryDriver:
    """Containers that only exist here; threads may share it.

    ``latency`` is what every operation takes, in seconds, outside of any lock. ``images`` are those on the
    host (None: any image is), ``registry`` those a pull brings. ``cpus`` and ``mems`` are the ids the kernel
    knows; given, others are refused as Docker does. ``runtime`` is shared by drivers that stand for agents on
    one daemon.

    Beyond the Protocols: :meth:`fail` and :meth:`before` disturb an operation, :meth:`disobey` the kernel,
    :meth:`cut_events` and :meth:`join_events` the stream of events, :meth:`exit` ends a process;
    ``kernel`` holds what else an audit finds; ``updates`` and ``pulls`` tell what was asked for.
    """

    def __init__(
        self,
        host_facts: HostFacts = DEFAULT_FACTS,
        latency: float = 0.0,
        *,
        images: Mapping[str, ImageFacts] | None = None,
        registry: Mapping[str, ImageFacts] | None = None,
        cpus: CpuSet | None = None,
        mems: CpuSet | None = None,
        execute_timeout: float = 5.0,
        runtime: InMemoryRuntime | None = None,
    ) -> None:
        self.host_facts = host_facts
        self.latency = latency
        self.images = None if images is None else dict(images)
        self.registry = dict(registry or {})
        self.runtime = runtime or InMemoryRuntime()
        self.updates: list[Update] = []
        self.archives: dict[tuple[str, str], bytes] = {}
        self.pulls: list[str] = []
        self.commits: dict[str, str] = {}  # name of an image -> the container it was made of
        self.credentials: list[RegistryAuth | None] = []
        self.accounts: dict[str, RegistryAuth] = {}  # domain of a registry -> what it wants to see
        self.kernel = AuditedKernel()
        self._cpus, self._mems = cpus, mems
        self._execute_timeout = execute_timeout
        self._failures: dict[str, list[_Failure]] = defaultdict(list)
        self._hooks: dict[str, list[Callable[[ContainerView | None], None]]] = defaultdict(list)
        self._disobedient: dict[str, Disobedience] = {}
        self.commands: dict[str, PreparedCommand] = {}
        self.terminal_sizes: dict[str, tuple[int, int]] = {}

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Return an empty runtime of this host; the entry point of ``[compute] container_driver = fake``."""
        return cls(replace(DEFAULT_FACTS, name=conf.host), execute_timeout=conf.docker.execute_timeout)

    # What tests do to it.

    def fail(self, operation: str, error: Exception, times: int = 1, *, after: bool = False) -> None:
        """Let the next ``times`` calls of a method raise ``error``, instead of their work or ``after`` it."""
        with self.runtime.lock:
            self._failures[operation].append(_Failure(error, times, after))

    def before(self, operation: str, hook: Callable[[ContainerView | None], None]) -> None:
        """Call ``hook`` with the container before every call of a method; it may block or raise."""
        with self.runtime.lock:
            self._hooks[operation].append(hook)

    def disobey(
        self,
        uuid: str,
        *,
        cpus: CpuSet | str | None = None,
        mems: CpuSet | str | None = None,
        repairable: bool = False,
    ) -> None:
        """Let the kernel show other sets for a container, which need not exist yet. Without sets: obey."""
        with self.runtime.lock:
            if cpus is None and mems is None:
                self._disobedient.pop(uuid, None)
                return
            self._disobedient[uuid] = Disobedience(
                CpuSet(cpus) if isinstance(cpus, str) else cpus,
                CpuSet(mems) if isinstance(mems, str) else mems,
                repairable,
            )

    def exit(self, uuid: str, code: int = 0, *, out_of_memory: bool = False) -> None:
        """End the container's process as if by itself; its restart policy applies."""
        with self.runtime.lock:
            self.runtime.objects[uuid].out_of_memory = out_of_memory
            self.runtime.end(self.runtime.objects[uuid], code, by_itself=True)

    def cut_events(self) -> None:
        """Let nothing be heard of this host's containers until ``join_events``."""
        with self.runtime.lock:
            self.runtime.silent.add(self.host_facts.name)

    def join_events(self) -> None:
        """Connect the stream again. It begins with a resync; what happened meanwhile is not told."""
        with self.runtime.lock:
            self.runtime.silent.discard(self.host_facts.name)
            for listener in self.runtime.listeners[self.host_facts.name]:
                listener.put(RuntimeEvent("", RESYNC))

    def write_log(self, uuid: str, line: str) -> None:
        with self.runtime.lock:
            self.runtime.objects[uuid].log.append((utcnow(), line))

    # Lifecycle

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
        image = image or container.image
        with self._operation("create", container):
            if self.images is not None and image not in self.images:
                raise exceptions.ImageNotFound(image=image)
            self._check_sets(container.uuid, cpuset_cpus, cpuset_mems)
            if join is not None and join not in self.runtime.by_host[self.host_facts.name]:
                raise exceptions.DockerError(error=f"no such container: {join}")
            found = self.runtime.objects.get(container.uuid)
            if found is not None:
                if found.host != self.host_facts.name:
                    raise exceptions.ContainerAlreadyExists(field="uuid", value=container.uuid)
                found.cpuset_cpus = cpuset_cpus or found.cpuset_cpus
                found.cpuset_mems = cpuset_mems or found.cpuset_mems
                return found.container_id
            made = RuntimeObject(
                container_id=uuids.uuid4().hex * 2,
                uuid=container.uuid,
                host=self.host_facts.name,
                command=(*(container.entrypoint or ()), *(container.command or ())),
                auto_remove=bool(container.auto_remove),
                restart=dict(container.restart_policy or {}),
                cpuset_cpus=cpuset_cpus,
                cpuset_mems=cpuset_mems,
                memory=container.memory,
                hostname=container.hostname,
                plug=plug,
                mounts=tuple(mounts),
                join=join,
            )
            self.runtime.add(made)
            return made.container_id

    def start(self, container: ContainerView) -> None:
        with self._operation("start", container):
            found = self._find(container)
            if found.paused:
                raise exceptions.Conflict(f"Cannot start container {found.uuid}: it is paused, unpause it")
            if not found.pid:
                self._start(found)

    def stop(self, container: ContainerView, timeout: int | None = None) -> None:
        with self._operation("stop", container):
            found = self._find(container)
            if found.pid:
                self.runtime.end(found, TERMINATED)
            found.restarting = False

    def reboot(self, container: ContainerView, timeout: int | None = None) -> None:
        with self._operation("reboot", container):
            found = self._find(container)
            if found.pid:
                self.runtime.end(found, TERMINATED, keep=True)
            self._start(found)

    def pause(self, container: ContainerView) -> None:
        with self._operation("pause", container):
            found = self._running(container, "pause")
            if found.paused:
                raise exceptions.Conflict(f"Cannot pause container {found.uuid}: it is already paused")
            found.paused = True
            self.runtime.tell(found, "pause")

    def unpause(self, container: ContainerView) -> None:
        with self._operation("unpause", container):
            found = self._find(container)
            if not found.paused:
                raise exceptions.Conflict(f"Cannot unpause container {found.uuid}: it is not paused")
            found.paused = False
            self.runtime.tell(found, "unpause")

    def kill(self, container: ContainerView, signal: str | None = None) -> None:
        with self._operation("kill", container):
            found = self._running(container, "kill")
            # The first process of a pid namespace ignores what it does not handle, except this one.
            if signal_number(signal or "SIGKILL") == signals.SIGKILL:
                self.runtime.end(found, KILLED)

    def delete(self, container: ContainerView, *, force: bool = False) -> None:
        with self._operation("delete", container):
            found = self.runtime.objects.get(container.uuid)
            if found is None or found.host != self.host_facts.name:
                return
            if found.pid:
                if not force:
                    raise exceptions.Conflict(f"Cannot delete container {found.uuid}: it is running, stop it")
                self.runtime.end(found, KILLED, keep=True)
            self.runtime.remove(found)

    # Inspector

    def show(self, container: ContainerView) -> RuntimeState | None:
        with self._operation("show", container):
            found = self.runtime.objects.get(container.uuid)
            if found is None or found.host != self.host_facts.name:
                return None
            return found.state(container.status)

    def list(self) -> dict[str, RuntimeState]:
        with self._operation("list", None):
            return {uuid: each.state(None) for uuid, each in self.runtime.by_host[self.host_facts.name].items()}

    def kernel_view(self, container: ContainerView, state: RuntimeState) -> KernelView | None:
        with self._operation("kernel_view", container):
            return self._kernel_view(container.uuid, state.pid)

    def _kernel_view(self, uuid: str, pid: int) -> KernelView | None:
        found = self.runtime.objects.get(uuid)
        if found is None or not found.pid or found.pid != pid:
            return None
        cpus = CpuSet(found.cpuset_cpus) if found.cpuset_cpus else self._all_cpus()
        mems = CpuSet(found.cpuset_mems) if found.cpuset_mems else self._all_mems()
        wrong = self._disobedient.get(found.uuid)
        if wrong is not None:
            cpus = cpus if wrong.cpus is None else wrong.cpus
            mems = mems if wrong.mems is None else wrong.mems
        return KernelView(cpus=cpus, mems=mems, cgroup_cpus=cpus, cgroup_mems=mems)

    # Auditor

    def pinning_view(self, container: ContainerView, state: RuntimeState) -> PinningView | None:
        with self._operation("pinning_view", container):
            seen = self._kernel_view(container.uuid, state.pid)
            return None if seen is None else self.kernel.view(container.uuid, state.pid, seen)

    def intruders(
        self, cpus: CpuSet, known: Callable[[str], bool], *, processes: bool = True, unplaced: bool = False
    ) -> Sequence[Intruder]:
        with self._operation("intruders", None):
            return self.kernel.found(cpus, known, processes=processes)

    # Resources

    def update(
        self,
        container: ContainerView,
        *,
        cpu: float | None = None,
        memory: int | None = None,
        cpuset_cpus: str | None = None,
        cpuset_mems: str | None = None,
    ) -> None:
        with self._operation("update", container):
            self.updates.append(Update(container.uuid, cpu, memory, cpuset_cpus, cpuset_mems))
            for name, value in (("cpuset_cpus", cpuset_cpus), ("cpuset_mems", cpuset_mems)):
                if value is not None and not value.strip():
                    raise exceptions.Invalid(f"{name} is empty. To unpin, give every allowed id.")
            found = self._find(container)
            self._check_sets(found.uuid, cpuset_cpus or "", cpuset_mems or "")
            found.cpuset_cpus = cpuset_cpus or found.cpuset_cpus
            found.cpuset_mems = cpuset_mems or found.cpuset_mems
            found.memory = memory or found.memory
            if cpuset_cpus or cpuset_mems:
                self._repair(found)

    # Console

    def execute(
        self, container: ContainerView, command: Sequence[str], timeout: float | None = None
    ) -> tuple[str, int]:
        with self._operation("execute", container):
            found = self._running(container, "execute a command in")
            if found.paused:
                raise exceptions.Conflict(f"Cannot execute a command in container {found.uuid}: it is paused")
        outcome = pretend(command) or Outcome("", 0)
        limit = self._execute_timeout if timeout is None else timeout
        if outcome.seconds > limit:
            # Raised at once: the wait would prove nothing.
            raise exceptions.Conflict(f"The command did not end within {limit:g} seconds in {container.uuid}")
        return outcome.output, outcome.code

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
        with self._operation("logs", container):
            lines = tuple(self._find(container).log) if stdout else ()
        start, count = since_epoch(since), tail_lines(tail)
        if start is not None:
            lines = tuple(line for line in lines if line[0].replace(tzinfo=UTC).timestamp() >= start)
        if isinstance(count, int):
            lines = lines[len(lines) - min(count, len(lines)) :]
        return "".join(f"{when.isoformat()}Z {text}\n" if timestamps else f"{text}\n" for when, text in lines)

    def top(self, container: ContainerView, ps_args: str | None = None) -> dict[str, Any]:
        with self._operation("top", container):
            found = self._running(container, "list the processes of")
            row = ["root", str(found.pid), "1", "0", "00:00", "?", "00:00:00", " ".join(found.command)]
            return {"Titles": ["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"], "Processes": [row]}

    def stats(self, container: ContainerView) -> dict[str, Any]:
        with self._operation("stats", container):
            found = self._running(container, "read the statistics of")
            limit = found.memory or self.host_facts.mem_total_mib
            return {
                "CONTAINER": container.name or f"zun-{found.uuid}",
                "CPU %": 0.0,
                "MEM USAGE(MiB)": 1.0,
                "MEM LIMIT(MiB)": float(limit),
                "MEM %": 100.0 / limit,
                "BLOCK I/O(B)": "0/0",
                "NET I/O(B)": "0/0",
            }

    # Archives

    def get_archive(self, container: ContainerView, path: str) -> tuple[Iterator[bytes], dict[str, Any]]:
        """What was last put to this path, byte for byte."""
        with self._operation("get_archive", container):
            found = self._find(container)
            data = self.archives.get((found.uuid, path))
            if data is None:
                raise exceptions.InvalidValue(f"path: there is no '{path}' in container {found.uuid}")
        stat = {"name": path.rpartition("/")[2], "size": len(data), "mode": 493, "mtime": "", "linkTarget": ""}
        return (data[start : start + 1000] for start in range(0, len(data), 1000)), stat

    def put_archive(self, container: ContainerView, path: str, chunks: Iterable[bytes]) -> None:
        with self._operation("put_archive", container):
            found = self._find(container)
        data = b"".join(chunks)
        with self.runtime.lock:
            self.archives[found.uuid, path] = data

    # Terminals

    def attach(self, container: ContainerView) -> Stream:
        with self._operation("attach", container):
            self._running(container, "attach to")
            return Echo()

    def create_exec(self, container: ContainerView, command: Sequence[str], *, interactive: bool) -> str:
        with self._operation("create_exec", container):
            self._running(container, "execute a command in")
            exec_id = uuids.uuid4().hex * 2
            self.commands[exec_id] = PreparedCommand(container.uuid)
            return exec_id

    def open_exec(self, container: ContainerView, exec_id: str) -> Stream:
        with self._operation("open_exec", container):
            command = self._command(container, exec_id)
            if command.started:
                raise exceptions.Conflict(f"Cannot execute a command in container {container.uuid}: it was started")
            command.started = True
            return Echo()

    def resize(self, container: ContainerView, *, width: int, height: int) -> None:
        with self._operation("resize", container):
            self._running(container, "resize the terminal of")
            self.terminal_sizes[container.uuid] = (width, height)

    def resize_exec(self, container: ContainerView, exec_id: str, *, width: int, height: int) -> None:
        with self._operation("resize_exec", container):
            self._command(container, exec_id).size = (width, height)

    def _command(self, container: ContainerView, exec_id: str) -> PreparedCommand:
        found = self.commands.get(exec_id)
        if found is None or found.container_uuid != container.uuid:
            raise exceptions.InvalidValue(f"exec_id: container {container.uuid} has no command {exec_id}.")
        return found

    # Images

    def find_image(self, image: str) -> ImageFacts | None:
        with self._operation("find_image", None):
            return self._here(image)

    def _here(self, image: str) -> ImageFacts | None:
        if self.images is None:
            return ImageFacts(image_id=f"sha256:{image}")
        untagged = _UNTAGGED.sub("@", image)  # a digest goes before a tag
        known = (each for each in self.images.values() if untagged in (each.image_id, *each.digests))
        return self.images.get(image) or next(known, None)

    def image_digest(self, image: str, auth: RegistryAuth | None = None) -> str:
        with self._operation("image_digest", None):
            return self._at_registry(image, auth).digests[0].partition("@")[2]

    def pull_image(
        self, image: str, auth: RegistryAuth | None = None, progress: Callable[[str], None] | None = None
    ) -> ImageFacts:
        with self._operation("pull_image", None):
            if self.images is None:
                return ImageFacts(image_id=f"sha256:{image}")
            self.pulls.append(image)
            self.credentials.append(auth)
            if progress is not None:
                progress(f"Pulling {image}")
            self.images[image] = self._at_registry(image, auth)
            return self.images[image]

    def _at_registry(self, image: str, auth: RegistryAuth | None) -> ImageFacts:
        """What the registry has of this name, or under one that it was made known with."""
        wanted = self.accounts.get(image.partition("/")[0])
        for name, facts in self.registry.items():
            repository = name.rpartition(":")[0]
            digest = f"{repository}@sha256:{hashlib.sha256(facts.image_id.encode()).hexdigest()}"
            if image in (name, digest) and wanted in (None, auth):
                return replace(facts, digests=(digest,))
        raise exceptions.ImageNotFound(image=image)

    def tag_image(self, image: str, name: str) -> None:
        with self._operation("tag_image", None):
            found = self._here(image)
            if found is None:
                raise exceptions.ImageNotFound(image=image)
            if self.images is not None:
                self.images[name] = found

    def image_digests(self) -> Sequence[str]:
        with self._operation("image_digests", None):
            return [digest for facts in (self.images or {}).values() for digest in facts.digests]

    def remove_image(self, image: str) -> None:
        with self._operation("remove_image", None):
            if self.images is not None and (gone := self.images.pop(image, None)) is not None:
                names = [name for name, facts in self.images.items() if facts.image_id == gone.image_id]
                if all("@" in name for name in names):  # as at Docker: they go with the last tag
                    for name in names:
                        del self.images[name]

    def commit(self, container: ContainerView, name: str) -> ImageFacts:
        with self._operation("commit", container):
            found = self._find(container)
            self.commits[name] = found.uuid
            facts = ImageFacts(f"sha256:{name}", size=1000)
            if self.images is not None:
                self.images[name] = facts
            return facts

    def find_images(self, term: str) -> Sequence[LocalImage]:
        with self._operation("find_images", None):
            named = sorted((*name.rpartition(":")[::2], facts) for name, facts in (self.images or {}).items())
            return [
                LocalImage(name, (tag,), facts.image_id, facts.size, facts.digests)
                for name, tag, facts in named
                if term in name and name != LOCAL and "@" not in name
            ]

    def search_images(self, term: str) -> Sequence[Mapping[str, Any]]:
        with self._operation("search_images", None):
            metadata = {"is_official": False, "star_count": 0}
            return [
                {"name": name, "description": "", "metadata": metadata} for name in self.registry if term in name
            ]

    # EventSource

    def events(self, stop: threading.Event) -> Iterator[RuntimeEvent]:
        inbox: queue.SimpleQueue[RuntimeEvent] = queue.SimpleQueue()
        listeners = self.runtime.listeners[self.host_facts.name]
        with self.runtime.lock:
            listeners.append(inbox)
        try:
            yield RuntimeEvent("", RESYNC)
            while not stop.is_set():
                try:
                    yield inbox.get(timeout=0.05)
                except queue.Empty:
                    continue
        finally:
            with self.runtime.lock:
                listeners.remove(inbox)

    # Facts

    def facts(self) -> HostFacts:
        with self._operation("facts", None):
            return self.host_facts

    @contextmanager
    def _operation(self, name: str, container: ContainerView | None) -> Iterator[None]:
        """Everything that happens around the work of one method; the work holds the runtime's lock."""
        for hook in tuple(self._hooks.get(name, ())):
            hook(container)
        if self.latency:
            time.sleep(self.latency)
        failure = self._next_failure(name)
        if failure is not None and not failure.after:
            raise failure.error
        with self.runtime.lock:
            yield
        if failure is not None:
            raise failure.error

    def _next_failure(self, name: str) -> _Failure | None:
        with self.runtime.lock:
            pending = self._failures.get(name)
            if not pending:
                return None
            failure = pending[0]
            failure.times -= 1
            if failure.times <= 0:
                pending.pop(0)
            return failure

    def _find(self, container: ContainerView) -> RuntimeObject:
        found = self.runtime.objects.get(container.uuid)
        if found is None:
            raise exceptions.ContainerNotFound(container=container.uuid)
        return found

    def _running(self, container: ContainerView, action: str) -> RuntimeObject:
        found = self._find(container)
        if not found.pid:
            raise exceptions.Conflict(f"Cannot {action} container {found.uuid}: it is not running")
        return found

    def _start(self, stopped: RuntimeObject) -> None:
        self._repair(stopped)
        stopped.restarts = 0
        self.runtime.begin(stopped)

    def _repair(self, target: RuntimeObject) -> None:
        wrong = self._disobedient.get(target.uuid)
        if wrong is not None and wrong.repairable:
            del self._disobedient[target.uuid]

    def _all_cpus(self) -> CpuSet:
        return CpuSet(range(self.host_facts.cpus)) if self._cpus is None else self._cpus

    def _all_mems(self) -> CpuSet:
        return CpuSet([0]) if self._mems is None else self._mems

    def _check_sets(self, uuid: str, cpus: str, mems: str) -> None:
        for asked, known, what in ((cpus, self._cpus, "CPUs"), (mems, self._mems, "memory nodes")):
            if asked and known is not None and not CpuSet(asked) <= known:
                raise exceptions.DockerError(
                    f"Requested {what} of container {uuid} are not available - asked {asked}, known {known}"
                )
