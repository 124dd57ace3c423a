# SPDX-License-Identifier: Apache-2.0
"""The frame of every operation of the in-memory driver: the runtime's lock, and disturbances by tests."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from zun.common import exceptions
from zun.container.driver.container import ContainerView
from zun.container.driver.facts import HostFacts, Judge
from zun.container.fake.runtime import InMemoryRuntime, RuntimeObject
from zun.topology import CPUPolicy


@dataclass(slots=True)
class _Failure:
    error: Exception
    times: int
    after: bool


class OnRuntime:
    """Base of each capability. A driver inherits from several capabilities, which share one runtime."""

    def __init__(self, *, host_facts: HostFacts, runtime: InMemoryRuntime) -> None:
        self.host_facts = host_facts
        self.runtime = runtime
        self._judge: Judge | None = None
        self._judged = True
        self._failures: dict[str, list[_Failure]] = defaultdict(list)
        self._hooks: dict[str, list[Callable[[ContainerView | None], None]]] = defaultdict(list)

    def fail(self, operation: str, error: Exception, times: int = 1, *, after: bool = False) -> None:
        """Let the next ``times`` calls of a method raise ``error``: instead of their work, or ``after`` it."""
        with self.runtime.lock:
            self._failures[operation].append(_Failure(error, times, after))

    def end_failures(self, operation: str) -> None:
        """Remove the failures of a method."""
        with self.runtime.lock:
            self._failures.pop(operation, None)

    def before(self, operation: str, hook: Callable[[ContainerView | None], None]) -> None:
        """Call ``hook`` with the container before every call of a method. The hook may block or raise."""
        with self.runtime.lock:
            self._hooks[operation].append(hook)

    @contextmanager
    def _operation(self, name: str, container: ContainerView | None) -> Iterator[None]:
        """Call hooks, raise planned failures, and hold the runtime's lock during the block."""
        for hook in tuple(self._hooks.get(name, ())):
            hook(container)
        if not self._judged and self._judge is not None:
            self._judge(self.host_facts.engine, lambda: {*self.runtime.by_host[self.host_facts.name]})
            self._judged = True
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
            raise exceptions.ContainerVanished(container=container.uuid)
        return found

    def _running(self, container: ContainerView, action: str) -> RuntimeObject:
        found = self._find(container)
        if not found.pid:
            raise exceptions.Conflict(f"Cannot {action} container {found.uuid}: it is not running")
        return found


def limit(container: ContainerView, cpu: float | None) -> float | None:
    """Return the CPU limit or weight of the container: None for a dedicated container, which owns its CPUs."""
    return None if container.cpu_policy == CPUPolicy.DEDICATED else cpu
