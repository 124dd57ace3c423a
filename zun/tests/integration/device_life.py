# SPDX-License-Identifier: Apache-2.0
"""A random life of containers with devices, and what must hold in it: no device twice, and no claimed device missing.

The same life is for any machine. The test names the devices of the machine in its own words (``Part``): which files and
which interface a container with the device must have, and which other devices it rules out.
"""

import itertools
import os
import random
import re
import stat
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import docker

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import SETTLED, Api

VERSION = {"OpenStack-API-Version": "container 1.45"}
_USUAL = re.compile("/dev/(null|zero|full|random|urandom|tty|console|ptmx|pts/.*|shm/.*|mqueue/.*)")
_HOLDING = ("Running", "Stopped")


@dataclass(frozen=True)
class Part:
    """A device, told by the test and not by the product."""

    address: str
    kind: str
    """Name that containers ask for it by."""
    files: frozenset[str] = frozenset()
    interface: str | None = None
    rules_out: frozenset[str] = frozenset()
    """Addresses of other devices that nobody else may have meanwhile."""


@dataclass
class Life:
    """``steps`` random creates, deletes, kills of containers and of the agent. ``agent`` has ``kill`` and ``start``."""

    api: Api
    agent: Any
    host: str
    engine: docker.APIClient
    parts: Mapping[str, Part]
    wanted: Sequence[tuple[dict[str, Any], ...]]
    """The requests of containers: entries of ``devices``. ``key`` of each is the ``kind`` of a part."""
    key: str = "resource_class"
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of each container."""
    patience: float = 120
    done: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def live(self, steps: int, seed: int) -> None:
        """Take the steps. After each, no device is twice at Docker. After ten or twenty steps, all places agree."""
        dice, settle = random.Random(seed), 20 if steps > 200 else 10
        print(f"{steps} steps of seed {seed}", flush=True)
        for number in range(steps):
            rows = self.rows()
            self.step(dice, rows, must_kill=number == settle // 2)  # at least once, whatever the seed
            self.never_twice()
            if number % settle == settle - 1:
                self.agree()
                self.one_more(dice)
                print(f"{number + 1} steps: {dict(self.done)}", flush=True)
        self.api.delete_all(self.patience)
        self.agree()
        assert self.configured() == {}
        print(f"{dict(self.done)}; refused: {dict(self.reasons)}", flush=True)

    def rows(self) -> dict[str, dict[str, Any]]:
        return {each["uuid"]: each for each in self.api.get("/containers")["containers"]}

    def step(self, dice: random.Random, rows: Mapping[str, Any], *, must_kill: bool) -> None:
        choices = {"create": 20, "delete": 8 + 2 * len(rows), "agent": 1}
        choices |= dict.fromkeys(("kill", "start", "reboot", "strike"), 2)
        what = dice.choices(list(choices), list(choices.values()))[0]
        if must_kill:
            what = "agent"
        elif not rows and what != "agent":
            what = "create"
        one = dice.choice(sorted(rows)) if rows else ""
        wanted = dice.choice(self.wanted)
        self.done[what] += 1
        if what == "create":
            self.create(wanted)
        elif what == "delete":
            self.api.request("DELETE", f"/containers/{one}?force=true")
        elif what in ("kill", "start", "reboot"):
            self.api.request("POST", f"/containers/{one}/{what}")  # may not fit the container's state
        elif what == "strike":  # the process is ended behind the service's back
            pid = self.configured().get(one, ((), 0))[1]
            if pid:
                os.kill(pid, 9)
        else:
            self.agent.kill()
            self.agent.start()

    def create(self, wanted: Iterable[Mapping[str, Any]]) -> str:
        return self.api.run(**{"cpu": 0.1, "memory": 16, **self.fields, "devices": list(wanted)})

    def configured(self) -> dict[str, tuple[frozenset[str], int]]:
        """The files of the host that Docker gives to each container, and its process, by uuid."""
        found = {}
        for each in self.engine.containers(all=True, filters={"label": f"zun.host={self.host}"}):
            try:
                config = self.engine.inspect_container(each["Id"])
            except docker.errors.NotFound:
                continue
            devices = config["HostConfig"]["Devices"] or ()
            files = frozenset(device["PathOnHost"] for device in devices)
            found[each["Labels"]["zun.uuid"]] = files, config["State"]["Pid"]
        return found

    def never_twice(self) -> None:
        """No two containers of Docker may have a file in common, or the files of devices that rule each other out."""
        self._apart({uuid: self._of_files(files) for uuid, (files, _) in self.configured().items()})

    def _of_files(self, files: frozenset[str]) -> set[str]:
        return {part.address for part in self.parts.values() if part.files & files}

    def _apart(self, held: Mapping[str, Iterable[str]]) -> None:
        for (one, first), (two, second) in itertools.combinations(held.items(), 2):
            for address in first:
                common = {address, *self.parts[address].rules_out} & set(second)
                assert not common, f"{address} is in {one} and {common} in {two}"

    def agree(self) -> None:
        """Wait until rows, claims, Docker and the containers' own files and interfaces say the same, and check it."""
        found: list[str | None] = []

        def look() -> bool:
            found.append(self.disagreement())
            return found[-1] is None

        try:
            wait_for(look, self.patience)
        except AssertionError as exc:
            raise AssertionError(found[-1]) from exc

    def disagreement(self) -> str | None:
        rows, there = self.rows(), self.configured()
        claims = {each["container"] for each in self.api.held().get(self.host, ())}
        unsettled = [each for each, row in rows.items() if row["task_state"] or row["status"] not in SETTLED]
        holding = {each: self.given(row) for each, row in rows.items() if row["status"] in _HOLDING}
        if unsettled or not holding.keys() == claims == there.keys():
            return f"{unsettled=}, rows {holding}, claims {sorted(claims)}, Docker {sorted(there)}"
        self._apart(holding)
        for each, addresses in holding.items():
            wanted = sum(entry["count"] for entry in rows[each]["devices"])
            assert len(addresses) == wanted, f"{each} asked for {wanted} devices and holds {addresses}"
            if wrong := self._wrong(addresses, *there[each], running=rows[each]["status"] == "Running"):
                return f"{each}, {rows[each]['status']}, holds {addresses}: {wrong}"
        return None

    @staticmethod
    def given(row: Mapping[str, Any]) -> list[str]:
        return sorted(device["address"] for entry in row["devices"] or () for device in entry["given"])

    def _wrong(self, addresses: Iterable[str], files: frozenset[str], pid: int, *, running: bool) -> str | None:
        """Return in words how the container differs from what it should have, or None if it does not."""
        parts = [self.parts[address] for address in addresses]
        expected = {file for part in parts for file in part.files}
        if files - {"/dev/vfio/vfio"} != expected:
            return f"Docker gives {sorted(files)}, not {sorted(expected)}"
        if not running:
            return None
        if bool(pid) != running:
            return f"its process is {pid}"
        try:
            inside, interfaces = device_files(pid), self._interfaces(pid)
        except (FileNotFoundError, ProcessLookupError, subprocess.CalledProcessError) as exc:
            return f"its process is gone: {exc}"
        numbers = {file: os.stat(file).st_rdev for file in files}
        if inside != numbers:
            return f"it sees the files {inside}, not {numbers}"
        if interfaces != {part.interface for part in parts if part.interface}:
            return f"it sees the interfaces {interfaces}"
        return None

    def _interfaces(self, pid: int) -> set[str]:
        command = ("nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-o", "link")
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seen = {re.split("[:@ ]+", line)[1] for line in said.splitlines()}
        return seen & {part.interface for part in self.parts.values() if part.interface}

    def one_more(self, dice: random.Random) -> None:
        """A further container is placed exactly if enough devices are free for it by the test's own count."""
        wanted = dice.choice(self.wanted)
        held = {address for row in self.rows().values() if row["status"] in _HOLDING for address in self.given(row)}
        fits = self.fits(wanted, held)
        uuid = self.create(wanted)
        shown = self.api.settled(uuid, self.patience)
        if shown["status"] == "Error":
            self.reasons[re.sub("[0-9]+ of", "n of", str(shown["status_reason"]))] += 1
        assert (shown["status"] == "Running") == fits, (wanted, sorted(held), shown["status"], shown["status_reason"])
        self.done["one more, placed" if fits else "one more, refused"] += 1
        self.api.request("DELETE", f"/containers/{uuid}?force=true")

    def fits(self, wanted: Iterable[Mapping[str, Any]], held: set[str]) -> bool:
        """Whether enough devices are free. No entry of ``wanted`` rules out another one's devices."""
        taken = held | {other for address in held for other in self.parts[address].rules_out}
        free = [part for part in self.parts.values() if part.address not in taken]
        kinds = Counter(each[self.key] for each in wanted for _ in range(each.get("count", 1)))
        return all(sum(part.kind == kind for part in free) >= count for kind, count in kinds.items())


def device_files(pid: int) -> dict[str, int]:
    """The device files that a process sees under /dev, with their numbers, without those that all containers have."""
    top, found = f"/proc/{pid}/root", {}
    for folder, _, names in os.walk(f"{top}/dev"):
        for name in names:
            path = f"{folder}/{name}"
            facts = os.lstat(path)
            if stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode):
                found[path.removeprefix(top)] = facts.st_rdev
    return {path: number for path, number in found.items() if not _USUAL.fullmatch(path)}
