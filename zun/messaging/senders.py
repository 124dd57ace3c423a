# SPDX-License-Identifier: Apache-2.0
"""The users of RabbitMQ: one for each kind of service and one for each host, and what each may do.

RabbitMQ compares the property ``user_id`` of a message with the user of the connection, so a receiver can believe it.
The page ``doc/source/contributor/decisions/broker-users.rst`` compares this with signatures.

Exchanges, with the default ``[DEFAULT] control_exchange = zun``:

====================== ===============================================================================================
``zun``                messages to schedulers and conductors, also those of hosts
``zun.hosts``          messages to hosts. Hosts cannot publish here
``zun.replies``        answers of hosts. Other services answer over the default exchange, which reaches every queue
``TOPIC_fanout``       messages to all servers of a topic
====================== ===============================================================================================
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zun.objects.service import COMPUTE_BINARY, CONDUCTOR_BINARY, PROXY_BINARY, SCHEDULER_BINARY

API, SCHEDULER, CONDUCTOR = "zun-api", SCHEDULER_BINARY, CONDUCTOR_BINARY
SERVICES = (API, SCHEDULER, CONDUCTOR)
_HOST_PREFIX = f"{COMPUTE_BINARY}."
SCHEDULER_TOPIC = "zun.scheduler"
COMPUTE_TOPIC = "zun.compute"
CONDUCTOR_TOPIC = "zun.conductor"
HOSTS_SUFFIX = ".hosts"
REPLIES = "zun.replies"
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OF_QUEUES = re.compile(r"\.agent$|_fanout(_|$)")  # what names of a host's queues have after its name


def user_of_host(host: str) -> str:
    """Return the user of RabbitMQ of ``host``. Raise ValueError for a name that two hosts' queues could share."""
    if not _HOST_NAME.fullmatch(host) or _OF_QUEUES.search(host):
        raise ValueError(
            f"host must be letters, digits, '.', '_' and '-', without '_fanout' and '.agent' at its end, got {host!r}"
        )
    return _HOST_PREFIX + host


def host_of_user(user: str | None) -> str | None:
    """Return the host whose user this is, or None for the user of another service."""
    return user.removeprefix(_HOST_PREFIX) if user and user.startswith(_HOST_PREFIX) else None


def is_of_one_service(user: str | None) -> bool:
    """Return whether ``user`` is one of this module's. Then every sender must name its own user."""
    return user in SERVICES or host_of_user(user) is not None


def refusal(sender: str | None, *, named: bool, speaks_for: Iterable[str] | None) -> str | None:
    """Return why a message must not be acted on, or None.

    ``sender`` is the user that RabbitMQ vouches for, None if the message names none. ``named`` says that it must name
    one. ``speaks_for`` has the hosts about which the message speaks, or is None if hosts must not send it at all.
    """
    if sender is None:
        return "it does not name the user that sent it" if named else None
    host = host_of_user(sender)
    if host is None:
        return None
    if speaks_for is None:
        return f"host {host} must not send it"
    others = sorted(set(speaks_for) - {host})
    return f"host {host} speaks for {', '.join(others)}" if others else None


@dataclass(frozen=True, slots=True)
class Permissions:
    """Patterns of one user of a vhost. ``topics`` has write and read patterns for routing keys, by exchange."""

    configure: str
    write: str
    read: str
    topics: Mapping[str, tuple[str, str]] = field(default_factory=dict)


NOTHING = "^$"


def _any(*names: str) -> str:
    return f"^({'|'.join(names)})$"


def permissions(user: str, exchange: str = "zun") -> Permissions:
    """Return the permissions of ``user``, where ``exchange`` is ``[DEFAULT] control_exchange``."""
    out, to_hosts, replies = (re.escape(name) for name in (exchange, exchange + HOSTS_SUFFIX, REPLIES))
    answers = "reply_[0-9a-f]{32}"
    scheduler, compute, conductor = (re.escape(name) for name in (SCHEDULER_TOPIC, COMPUTE_TOPIC, CONDUCTOR_TOPIC))
    if user == API:
        return Permissions(
            configure=_any(out, to_hosts, replies, answers),
            write=_any(out, to_hosts, answers),
            read=_any(replies, answers),
            topics={
                exchange: (f"^{scheduler}$", NOTHING),
                exchange + HOSTS_SUFFIX: (f"^{compute}\\.", NOTHING),
                REPLIES: (NOTHING, f"^{answers}$"),
            },
        )
    if user == SCHEDULER:
        own = f"{scheduler}([._].+)?"
        return Permissions(
            configure=_any(out, to_hosts, replies, own, answers),
            write=_any(out, to_hosts, r"amq\.default", own, answers),
            read=_any(out, replies, own, answers),
            topics={
                exchange: (f"^{scheduler}(\\..+)?$", f"^{scheduler}(\\..+)?$"),
                exchange + HOSTS_SUFFIX: (f"^{compute}\\.", NOTHING),
                REPLIES: (NOTHING, f"^{answers}$"),
            },
        )
    if user == CONDUCTOR:
        own = f"{conductor}\\.#.*"
        return Permissions(
            configure=_any(out, own),
            write=_any(r"amq\.default", own),
            read=_any(out, own),
            topics={exchange: (NOTHING, f"^{conductor}\\.")},
        )
    host = host_of_user(user)
    if host is None:
        raise ValueError(f"user must be one of {', '.join(SERVICES)} or {_HOST_PREFIX}HOST, got {user!r}")
    name = re.escape(host)
    queues = f"{compute}\\.{name}(\\.agent|_fanout_.+)?"
    # The names of a host's programs are part of the names of their queues for answers.
    answers = f"reply_{name}:({COMPUTE_BINARY}|{PROXY_BINARY}):[0-9]+"
    fanout = f"{compute}\\.{name}_fanout"
    return Permissions(
        configure=_any(queues, fanout, answers),
        write=_any(out, replies, f"{scheduler}_fanout", queues, answers),
        read=_any(to_hosts, queues, fanout, answers),
        topics={
            exchange: (f"^({scheduler}|{conductor}\\.{name})$", NOTHING),
            exchange + HOSTS_SUFFIX: (NOTHING, f"^{compute}\\.{name}(\\.agent)?$"),
            REPLIES: ("^reply_", NOTHING),
        },
    )
