# SPDX-License-Identifier: Apache-2.0
"""The host of ``lifecycles`` with devices: schedulers propose any of them, held or not, and devices come and go."""

from collections import Counter
from dataclasses import replace
from typing import Any

from zun.common.context import RequestContext
from zun.db import containers as db
from zun.db.permits import Permits
from zun.objects import Container
from zun.objects.placement import PERMIT_KEY, held_plan, placement_request
from zun.tests.functional.lifecycles import HOST, World
from zun.topology import HostTopology, Plan, plan
from zun.topology.device_request import GivenDevice
from zun.topology.devices import Device, DeviceType

FILES = tuple(Device(path, type=DeviceType.PATH, nodes=(path,)) for path in ("/dev/a", "/dev/b", "/dev/c", "/dev/d"))
SPEC = '{"path": "/dev/*", "resource_class": "CUSTOM_X"}'


class DeviceWorld(World):
    def __init__(self, conf: Any, seed: int, *, kills: float, happenings: float) -> None:
        super().__init__(conf, seed, kills=kills, happenings=happenings)
        self.holders: set[str] = set()
        self.offer(FILES)

    def offer(self, devices: tuple[Device, ...]) -> None:
        """The machine has these devices from now on. The agent looks, unless it is killed then."""
        self.machine: HostTopology = replace(self.machine, devices=devices)
        self.trace.append(f"the host has {[each.address for each in devices]}")
        with self._acting():
            self.service._update_inventory()

    def lose(self) -> None:
        """Some devices vanish, or come back."""
        self.offer(tuple(each for each in FILES if self.random.random() < 0.8))

    def create(self, context: RequestContext, container: Container) -> None:
        """Propose a plan with devices as a scheduler does that knows little of what others hold."""
        row = dict(container)
        tracker = self.service.tracker
        answer = plan(tracker.topology, tracker.usage, placement_request(container))
        limits: dict[str, Any] = {PERMIT_KEY: Permits().permit(HOST, container.uuid)}
        if isinstance(answer, Plan):
            chosen = self.random.sample(FILES, self.random.choice([0, 1, 1, 2]))
            given = tuple(GivenDevice("x", each.address) for each in chosen)
            limits["cpuset"] = replace(answer, devices=given).to_dict()
        self.send(
            f"create {container.uuid[:4]} with {limits.get('cpuset', {}).get('devices')}",
            lambda: self.endpoint.create(
                context, container=Container.from_row(context, row), limits=limits, alternates=[], tried={}
            ),
        )

    def check(self) -> None:
        """No device is held twice, by rows or in the agent, and no container has one at the runtime without a claim."""
        super().check()
        rows = {row["uuid"]: held for row in db.claims() if (held := held_plan(row)) is not None}
        self.holders |= {uuid for uuid, held in rows.items() if held.devices}
        usage = self.service.tracker.usage
        for held in (rows, dict(usage)):
            assert _twice(each.address for plan in held.values() for each in plan.devices) == []
        objects = self.driver.runtime.objects
        running = {uuid: found for uuid, found in objects.items() if found.pid}
        assert _twice(each.address for found in running.values() for each in found.devices) == []
        for uuid, found in running.items():
            mine = usage.claim(uuid)
            assert mine is not None and found.devices == mine.devices, f"{uuid} runs with {found.devices}"


def _twice(addresses: Any) -> list[str]:
    return [address for address, count in Counter(addresses).items() if count > 1]
