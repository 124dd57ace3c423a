# SPDX-License-Identifier: Apache-2.0
"""What a container's status may be, what may be done in it, and where it may go next; and the statuses of an image.

Source: the lifecycle contract of Zun's API v1. The tables are the only place that knows these rules.
"""

from enum import StrEnum
from typing import Protocol

from zun.common import exceptions


class Status(StrEnum):
    CREATING = "Creating"
    CREATED = "Created"
    RUNNING = "Running"
    STOPPED = "Stopped"
    PAUSED = "Paused"
    ERROR = "Error"
    UNKNOWN = "Unknown"
    RESTARTING = "Restarting"
    REBUILDING = "Rebuilding"
    DELETING = "Deleting"
    DELETED = "Deleted"
    DEAD = "Dead"


class ImageStatus(StrEnum):
    """Of an image that a host has or is to have."""

    PULLING = "Pulling"
    COMMITTING = "Committing"
    AVAILABLE = "Available"
    ERROR = "Error"


class TaskState(StrEnum):
    CREATING = "container_creating"
    STARTING = "container_starting"
    STOPPING = "container_stopping"
    REBOOTING = "container_rebooting"
    PAUSING = "container_pausing"
    UNPAUSING = "container_unpausing"
    KILLING = "container_killing"
    DELETING = "container_deleting"
    REBUILDING = "container_rebuilding"
    SG_ADDING = "sg_adding"
    SG_REMOVING = "sg_removing"
    NETWORK_ATTACHING = "network_attaching"
    NETWORK_DETACHING = "network_detaching"


S = Status
_SETTLED = frozenset({S.CREATED, S.RUNNING, S.STOPPED, S.PAUSED})
_RUNNING = frozenset({S.RUNNING})

# Action key -> the statuses that allow it. Anything else is a 409. A paused container must be unpaused before it can be
# deleted, by anybody and however forced.
ALLOWED: dict[str, frozenset[Status]] = {
    "start": frozenset({S.CREATED, S.STOPPED, S.ERROR}),
    "stop": _RUNNING,
    "reboot": frozenset({S.CREATED, S.RUNNING, S.STOPPED, S.ERROR}),
    "rebuild": frozenset({S.CREATED, S.RUNNING, S.STOPPED, S.ERROR}),
    "pause": _RUNNING,
    "unpause": frozenset({S.PAUSED}),
    "kill": _RUNNING,
    "execute": _RUNNING,
    "execute_resize": _RUNNING,
    "attach": _RUNNING,
    "resize": _RUNNING,
    "top": _RUNNING,
    "stats": _RUNNING,
    "logs": _SETTLED | {S.ERROR, S.UNKNOWN},
    "get_archive": _SETTLED,
    "put_archive": _SETTLED,
    "update": _SETTLED,
    "resize_container": _SETTLED,
    "add_security_group": _SETTLED,
    "remove_security_group": _SETTLED,
    "commit": frozenset({S.RUNNING, S.STOPPED, S.PAUSED}),
    "delete": frozenset({S.CREATED, S.STOPPED, S.ERROR, S.DELETED, S.DEAD}),
    "delete_force": frozenset(S) - {S.PAUSED},
    "delete_after_stop": frozenset({S.CREATED, S.RUNNING, S.STOPPED, S.ERROR, S.DELETED, S.DEAD}),
}

# What a runtime can turn a container into by itself: it dies, is paused by hand, restarts, vanishes.
_SEEN = frozenset({S.CREATED, S.RUNNING, S.STOPPED, S.PAUSED, S.ERROR, S.UNKNOWN, S.RESTARTING, S.DEAD, S.DELETED})

# Status -> the statuses that may follow; staying is always legal. Every save of a status goes through this table.
TRANSITIONS: dict[Status, frozenset[Status]] = {
    # A short command has ended, and a failing one is being restarted, before anybody could see it run.
    S.CREATING: frozenset({S.CREATED, S.RUNNING, S.STOPPED, S.RESTARTING, S.ERROR, S.DELETING}),
    S.CREATED: _SEEN | {S.REBUILDING, S.DELETING},
    S.RUNNING: _SEEN | {S.REBUILDING, S.DELETING},
    S.STOPPED: _SEEN | {S.REBUILDING, S.DELETING},
    S.PAUSED: _SEEN | {S.DELETING},
    S.ERROR: _SEEN | {S.REBUILDING, S.DELETING},
    S.UNKNOWN: _SEEN | {S.DELETING},
    S.RESTARTING: _SEEN | {S.DELETING},
    S.REBUILDING: _SEEN | {S.DELETING},
    S.DEAD: _SEEN | {S.DELETING},
    S.DELETED: frozenset({S.DELETING}),
    S.DELETING: frozenset({S.ERROR}),
}

# Work in these statuses must end by itself; one that stays here has lost its message or its host.
TRANSITIONAL = frozenset({S.CREATING, S.RESTARTING, S.REBUILDING, S.DELETING})


class HasStatus(Protocol):
    uuid: str
    status: str


def check_action(action: str, container: HasStatus) -> None:
    """Raise InvalidStateException unless ``container`` may be ``action``-ed in its present status."""
    if container.status not in ALLOWED[action]:
        raise refusal(action, container, container.status)


def refusal(action: str, container: HasStatus, status: str, row: str = "") -> exceptions.InvalidStateException:
    """That it may not be ``action``-ed in ``status``. ``row`` is the action's name in ``ALLOWED``, if another."""
    allowed = ", ".join(sorted(ALLOWED[row or action]))
    return exceptions.InvalidStateException(action=action, uuid=container.uuid, status=status, allowed=allowed)
