# SPDX-License-Identifier: Apache-2.0
"""Decide what a container's status reason says of its devices. No I/O."""

from zun.container.driver import ContainerDevices

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
