# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's facts about its host."""

from dataclasses import replace

from zun.container.driver.facts import EngineFacts, HostFacts, Judge, Store
from zun.container.fake.events import InMemoryEvents

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
    engine=EngineFacts("In-memory", "1.0", store=Store(folder="/memory", driver="memory", images="memory")),
    cpu_flags=frozenset({"sse2", "avx", "avx2"}),
)


class InMemoryFacts(InMemoryEvents):
    def facts(self) -> HostFacts:
        with self._operation("facts", None):
            return self.host_facts

    def judged_by(self, judge: Judge) -> None:
        self._judge, self._judged = judge, False

    def ping(self) -> None:
        with self._operation("ping", None):
            pass

    def replace_engine(self, engine: EngineFacts, *, moved: bool = False) -> None:
        """Let ``engine`` come in the place of the present one. It shows the containers that were made in its store.

        ``moved``: everything was moved to its store before.
        """
        with self.runtime.lock:
            if not moved:
                self.runtime.change_store(self.host_facts.engine.store, engine.store)
            self.host_facts = replace(self.host_facts, engine=engine)
            self._judged = False
        self.join_events()
