# SPDX-License-Identifier: Apache-2.0
"""Kinds of containers, their statuses, the actions that each status allows and the statuses that may follow it.

The rules are those of Zun's API v1; ``doc/source/admin/lifecycle.rst`` explains them. Other modules
derive their sets of statuses from the sets here. The statuses of images are here too.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

from zun.common import exceptions


class Kind(StrEnum):
    """The kind of a row in the table of containers."""

    CONTAINER = "container"
    """A container by itself."""
    CAPSULE = "capsule"
    """Several containers together. Its row holds the claim of all; its object at the runtime keeps their network."""
    MEMBER = "member"
    """A container of a capsule. It runs on its part of the capsule's claim and holds nothing by itself."""
    INIT = "init"
    """A container of a capsule that runs to its end before the members start."""
    LEFTOVER = "leftover"
    """The object and the claim that a host still has of a container or capsule, which was deleted or is moving to
    another host. Its project does not see the row. The claim is held until the host finds the object gone."""


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
    """The status of an image on a host."""

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
SETTLED = frozenset({S.CREATED, S.RUNNING, S.STOPPED, S.PAUSED})
"""Statuses of a container that is as somebody wanted it."""
STEADY = SETTLED | {S.ERROR, S.UNKNOWN}
"""Statuses in which nothing is under way and the runtime may have the container."""
ALIVE = frozenset({S.RUNNING, S.PAUSED})
"""Statuses of a container that has processes."""
KEPT_WHEN_NEVER_STARTED = frozenset(S) - {S.CREATING, S.RUNNING, S.STOPPED, S.PAUSED, S.UNKNOWN}
"""Statuses that a row keeps while its object at the runtime never ran."""
_RUNNING = frozenset({S.RUNNING})
RUNS = _RUNNING | {S.RESTARTING}
"""Statuses that a stop ends. A runtime also stops a container that it is about to start again."""

# Action key -> the statuses that allow it. Anything else is a 409. A user can read why a container in Restarting ends
# again and again, and stop and delete it; Zun leaves that to administrators. A paused container must be unpaused before
# it can be deleted, by anybody and however forced.
ALLOWED: dict[str, frozenset[Status]] = {
    "start": frozenset({S.CREATED, S.STOPPED, S.ERROR}),
    "stop": RUNS,
    "reboot": frozenset({S.CREATED, S.RUNNING, S.STOPPED, S.ERROR}),
    "rebuild": frozenset({S.CREATED, S.RUNNING, S.STOPPED, S.ERROR}),
    "pause": _RUNNING,
    "unpause": frozenset({S.PAUSED}),
    "kill": RUNS,
    "execute": _RUNNING,
    "execute_resize": _RUNNING,
    "attach": _RUNNING,
    "resize": _RUNNING,
    "top": _RUNNING,
    "stats": _RUNNING,
    "logs": STEADY | {S.RESTARTING},
    "get_archive": SETTLED,
    "put_archive": SETTLED,
    "update": SETTLED,
    "resize_container": SETTLED,
    "move": SETTLED,
    "leave": frozenset({S.CREATED, S.RUNNING, S.STOPPED, S.RESTARTING}),
    "add_security_group": SETTLED,
    "remove_security_group": SETTLED,
    "commit": frozenset({S.RUNNING, S.STOPPED, S.PAUSED}),
    "delete": frozenset({S.CREATED, S.STOPPED, S.ERROR, S.DELETED, S.DEAD}),
    "delete_force": frozenset(S) - {S.PAUSED},
    "delete_after_stop": frozenset({S.CREATED, S.STOPPED, S.ERROR, S.DELETED, S.DEAD}) | RUNS,
}

AFTER_REBOOT = frozenset({"stop", "kill"})
"""Actions that are refused while an accepted reboot is to come."""

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


# The same keys, as a sentence has them.
WORDS: dict[str, str] = {
    "start": "start {}",
    "stop": "stop {}",
    "reboot": "restart {}",
    "rebuild": "rebuild {}",
    "pause": "pause {}",
    "unpause": "unpause {}",
    "kill": "send a signal to {}",
    "execute": "run a command in {}",
    "execute_resize": "resize a terminal in {}",
    "attach": "attach to {}",
    "resize": "resize the terminal of {}",
    "top": "list the processes of {}",
    "stats": "show the statistics of {}",
    "logs": "show the log of {}",
    "get_archive": "copy files from {}",
    "put_archive": "copy files to {}",
    "update": "change {}",
    "resize_container": "change the size of {}",
    "move": "move {}",
    "leave": "move {} to another host",
    "add_security_group": "add a security group to {}",
    "remove_security_group": "remove a security group from {}",
    "commit": "make an image of {}",
    "delete": "delete {}",
    "delete_force": "delete {} by force",
    "delete_after_stop": "stop and delete {}",
}


class HasStatus(Protocol):
    uuid: str
    name: str
    status: str


def awaits_reboot(row: Mapping[str, Any]) -> bool:
    """Return whether ``row`` is Restarting since a reboot was accepted, not by a restart of the runtime.

    Nobody but that reboot may touch its status and task state.
    """
    return row["status"] == S.RESTARTING and row["task_state"] == TaskState.REBOOTING


def check_action(action: str, container: HasStatus) -> None:
    """Raise InvalidStateException unless the status of ``container`` allows ``action``, a key of ``ALLOWED``.

    In Restarting a stop and a kill end the restarts of the runtime, but not a restart that a request asked for.
    """
    if container.status not in ALLOWED[action]:
        raise refusal(action, container, container.status)
    asked = container.status == S.RESTARTING and getattr(container, "task_state", None) == TaskState.REBOOTING
    if asked and action in AFTER_REBOOT:
        words = WORDS[action].format(f"container {container.name} ({container.uuid})")
        raise exceptions.InvalidStateException(
            f"Cannot {words} while a requested restart of it is under way. Try again when its task_state is not "
            f"{TaskState.REBOOTING} any more."
        )


def refusal(action: str, container: HasStatus, status: str) -> exceptions.InvalidStateException:
    """Return the error that ``status`` does not allow ``action``, a key of ``ALLOWED``."""
    words = WORDS[action].format(f"container {container.name} ({container.uuid})")
    allowed = ", ".join(sorted(ALLOWED[action]))
    error = exceptions.InvalidStateException(action=words, status=status, allowed=allowed)
    step = _next_step(action, container, status)
    return exceptions.InvalidStateException(f"{error} {step}") if step else error


def _next_step(action: str, container: HasStatus, status: str) -> str | None:
    """Return what the user can do about a deletion that ``status`` does not allow."""
    if action == "delete" and status in ALLOWED["delete_after_stop"]:
        return (
            "To stop it with the deletion, send stop=true in the query (from version 1.12 on), or run 'openstack "
            f"appcontainer delete --stop {container.name or container.uuid}'."
        )
    if action in ("delete", "delete_after_stop", "delete_force") and status == Status.PAUSED:
        return f"Unpause it first: 'openstack appcontainer unpause {container.name or container.uuid}'."
    return None
