# SPDX-License-Identifier: Apache-2.0
"""Watches the control groups of containers while things happen to them."""

import pathlib
import threading

import docker

from zun.topology import CpuSet

ROOTS = (pathlib.Path("/sys/fs/cgroup/cpuset/docker"), pathlib.Path("/sys/fs/cgroup/system.slice"))


class Sampler(threading.Thread):
    """Reads every few milliseconds where each container of ``host`` may run.

    ``violations`` says when a CPU of a container labelled ``kind=dedicated`` was allowed to another one. The dedicated
    group is read before and after the other: it counts only if it had the CPU all the while, however slow this thread
    is.
    """

    def __init__(self, engine: docker.APIClient, host: str) -> None:
        super().__init__(daemon=True)
        self._engine, self._host = engine, host
        self._done = threading.Event()
        self._kinds: dict[str, str | None] = {}  # folder name -> kind; None for containers of others
        self.samples = 0
        self.violations: list[str] = []

    def run(self) -> None:
        while not self._done.is_set():
            self._sample()
            self._done.wait(0.003)

    def stop(self) -> None:
        self._done.set()
        self.join()

    def _sample(self) -> None:
        groups = {folder: kind for folder in self._folders() if (kind := self._kind(folder)) is not None}
        dedicated = {folder: cpus for folder, kind in groups.items() if kind == "dedicated" and (cpus := read(folder))}
        for folder in groups:
            allowed = read(folder)
            for owner, before in dedicated.items():
                if owner != folder and (both := before & allowed) and both <= read(owner):
                    self.violations.append(f"{folder.name} was allowed on CPUs {both} of dedicated {owner.name}")
        self.samples += len(dedicated)

    def _folders(self) -> list[pathlib.Path]:
        return [folder for root in ROOTS if root.is_dir() for folder in root.iterdir() if len(folder.name) >= 64]

    def _kind(self, folder: pathlib.Path) -> str | None:
        name = folder.name.removeprefix("docker-").removesuffix(".scope")
        if name not in self._kinds:
            try:
                labels = self._engine.inspect_container(name)["Config"]["Labels"]
            except docker.errors.NotFound:
                labels = {}
            mine = labels.get("zun.host") == self._host
            self._kinds[name] = labels.get("kind", "shared") if mine else None
        return self._kinds[name]


def read(folder: pathlib.Path) -> CpuSet:
    """The CPUs a control group allows; none when it is gone or not set up yet."""
    for name in ("cpuset.cpus", "cpuset.cpus.effective"):
        try:
            return CpuSet((folder / name).read_text().strip())
        except OSError:
            continue
    return CpuSet("")
