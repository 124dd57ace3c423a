# SPDX-License-Identifier: Apache-2.0
"""Decide which devices a container's status reason names as gone. No I/O."""

from collections import deque
from collections.abc import Sequence

from zun.common.states import Kind
from zun.container.driver.devices import ContainerDevices
from zun.objects import Container
from zun.objects.placement import requested_devices
from zun.topology import Plan
from zun.topology.device_request import GivenDevice

#: Beginning of the status reason of a container whose device is gone. No other reason begins so.
LOST = "It has lost devices: "


def reason_now(reason: str | None, devices: ContainerDevices) -> str | None:
    """Return the status reason of a container that had ``reason``: it tells of lost devices as long as they are lost.

    A reason that tells of something else stays.
    """
    if reason is not None and not reason.startswith(LOST):
        return reason
    lost = devices.lost
    return None if lost is None else f"{LOST}{lost}. Tell the operator, or delete it and create it anew."


def given_to(container: Container, plan: Plan) -> tuple[GivenDevice, ...]:
    """Return the devices of ``plan`` that the container's own object at the runtime gets.

    The claim of a capsule has the devices of all its containers; its sandbox gets none of them.
    """
    return () if container.kind == Kind.CAPSULE else plan.devices


def shared_out(plan: Plan, members: Sequence[Container]) -> list[tuple[GivenDevice, ...]]:
    """Return the devices that each of a capsule's ``members`` gets of its ``plan``.

    Both have the devices in the order in which the members ask for them.
    """
    left = deque(plan.devices)
    counts = [sum(each.count for each in requested_devices(member)) for member in members]
    return [tuple(left.popleft() for _ in range(min(count, len(left)))) for count in counts]
