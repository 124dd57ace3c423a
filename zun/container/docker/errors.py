# SPDX-License-Identifier: Apache-2.0
"""Translate errors of docker-py into the service's errors."""

import json
import logging
import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests.exceptions
import urllib3.exceptions
from docker import errors as docker_errors

from zun.common import exceptions, naming

LOG = logging.getLogger(__name__)

#: Errors of a call through docker-py that concern the daemon. StreamParseError is a JSON stream whose connection was
#: lost in the middle of a value.
FOREIGN = (
    docker_errors.DockerException,
    docker_errors.StreamParseError,
    requests.exceptions.RequestException,
    urllib3.exceptions.HTTPError,
    OSError,
)

#: Seconds before the same advice is logged again. Every operation meets a daemon that is away, and the reader of
#: events meets it every two seconds.
SILENCE_SECONDS = 60.0

# Docker answers some wrong states with 500 (unpause, API 1.41), so the text decides.
_WRONG_STATE = re.compile(
    r"\bis not running|\bis not paused|\bis paused|\balready paused|\bpaused container|\bis restarting"
    r"|\bis marked for removal",
    re.IGNORECASE,
)

#: Texts of Docker, containerd and runc about a process whose end Docker has not noticed yet. In the order of time: the
#: process has stopped, its shim forgets the process, the shim closes its connection, containerd forgets the task.
ENDING = re.compile(
    r"not running|stopped (?:container|state)|deleted (?:process|state)|container does not exist|container not created"
    r"|ttrpc: closed|task \S+ not found|^no such container$",
    re.IGNORECASE,
)
# Actions that start a process or repeat themselves. For them a text of ENDING is an error.
_NEED_NO_PROCESS = frozenset({"create", "start", "restart", "update"})

# A command that is missing or no program fails on every host alike. The text decides, because Docker's answer 400 has
# other causes too, for example a control group of the host that denies permission, and with crun Docker answers 500.
_NO_COMMAND = re.compile(
    r'\bexec: "|\bexecutable file\b|\bis not executable\b|\bis not a regular file\b', re.IGNORECASE
)

#: MiB within which a runtime itself may not fit into a container's memory limit while the container starts. runc 1.1.15
#: of Debian 13 took up to 14, by chance less; crun and other builds of runc fit into 6, the least that Docker accepts.
START_MIB = 16
_NO_MEMORY = re.compile(
    "minimum memory limit|unable to set memory limit|oom-killed|a stopped process|a container that has stopped",
    re.IGNORECASE,
)

# A member of a capsule starts in the network of another object, and the missing object may be that one.
_JOINING = frozenset({"start", "restart"})
#: Bytes at the end of a tar in which an error of Docker is looked for.
_TAIL = 16 * 1024
_JSON_ERRORS = (b'{"errorDetail"', b'{"error"', b'{"message"')
_NO_OBJECT = "no such container: "
NO_PODMAN_OBJECT = "no container with name or id"

#: (text in Docker's reason, in lower case, advice that is added for the user, class of the error)
_NEXT: tuple[tuple[str, str, type[exceptions.ZunError]], ...] = (
    (
        "no space left on device",
        "The disk of the host is full: its operator can make room, as by 'docker image prune'",
        exceptions.Unavailable,
    ),
    ("transport is closing", "Docker was being stopped on the host. Try again once it runs", exceptions.Unavailable),
    (
        "are not available - requested",  # CPUs, or memory nodes
        "Some went offline: try again in a minute to be given others, or ask the operator of the host to bring them "
        "online",
        exceptions.DockerError,
    ),
    (
        "bind source path does not exist",
        "What the container mounts is missing on the host: its operator can restart zun-compute, which mounts it again",
        exceptions.DockerError,
    ),
)


def says(reason: docker_errors.APIError | str, *texts: str) -> bool:
    """Return whether Docker's reason contains one of ``texts``, which are in lower case.

    Docker changes capitals from release to release: ``Invalid signal: X`` in 20.10 is ``invalid signal: X`` in 26.
    """
    told = (str(reason.explanation or reason) if isinstance(reason, docker_errors.APIError) else reason).lower()
    return any(text in told for text in texts)


def failure_in(message: Mapping[str, Any]) -> str | None:
    """Return the error that a message of a stream tells, or None. Docker answers 200 before it begins its work.

    Source: Docker Engine API, JSON messages. ``error`` is the older member, which a release may leave out.
    """
    detail, old = message.get("errorDetail"), message.get("error")
    if not detail and not old:
        return None
    return str((detail.get("message") if isinstance(detail, Mapping) else detail) or old or detail)


def unbroken(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a tar. Raise DockerError if Docker wrote an error in JSON in place of the tar's end."""
    tail = b""
    for piece in pieces:
        tail = (tail + piece[-_TAIL:])[-_TAIL:]
        yield piece
    for beginning in _JSON_ERRORS:
        start = tail.rfind(beginning)
        try:
            told = json.loads(tail[start:]) if start >= 0 else {}
        except (ValueError, RecursionError):  # a tar, or another beginning
            continue
        if reason := failure_in(told) or told.get("message"):
            raise exceptions.DockerError(f"Docker could not read all of the files: {reason}")


def translate(
    exc: Exception, action: str, uuid: str, name: str | None = None, engine: str = "Docker"
) -> exceptions.ZunError:
    """Return the service's error for ``exc``, met in ``action`` on container ``uuid`` ("" for none) called ``name``.

    Users read the text, so an Unavailable does not name the daemon's address. ``advice`` does, for the operator.
    """
    who = naming.called(name, uuid)
    target = f"{action} container {who}" if uuid else action
    if isinstance(exc, docker_errors.ImageNotFound):
        return exceptions.ImageNotFound(
            f"Cannot {target}: {exc.explanation}. Pull it on the host with '{engine.lower()} pull', or use the "
            f"pull policy ifnotpresent or always."
        )
    reason = str(exc.explanation or exc) if isinstance(exc, docker_errors.APIError) else ""
    if action in _JOINING and says(reason, _NO_OBJECT) and uuid not in reason:
        return exceptions.ContainerVanished(
            f"Cannot {target}: what keeps the network of its capsule was removed on the host. Delete the capsule, and "
            "create it anew."
        )
    ended = uuid and action not in _NEED_NO_PROCESS and ENDING.search(reason) and not says(reason, NO_PODMAN_OBJECT)
    if isinstance(exc, docker_errors.NotFound) and uuid and not ended:
        return exceptions.ContainerVanished(
            f"{engine} has no object of container {who} any more: {exc.explanation}. Rebuild the container, or delete "
            "it here as well."
        )
    if isinstance(exc, docker_errors.APIError):
        if exc.status_code == 409 or _WRONG_STATE.search(reason):
            return exceptions.Conflict(f"Cannot {target}: {reason}")
        if ended:
            return exceptions.Conflict(f"Cannot {target}: its process has just ended.")
        if action == "update" and says(reason, "unable to set memory limit"):  # version 1 of control groups
            return exceptions.Conflict(
                f"The memory limit is below what the processes of container {who} use: {reason}. Let them free memory, "
                "or stop the container first."
            )
        if action == "start" and _NO_COMMAND.search(reason):
            return exceptions.Invalid(f"{engine} could not {target}: {reason}")
        for words, step, error in _NEXT:
            if says(reason, words):
                return error(f"{engine} could not {target}: {reason}. {step}")
        return exceptions.DockerError(f"{engine} could not {target}: {reason}")
    if isinstance(exc, requests.exceptions.ReadTimeout):
        return exceptions.Unavailable(f"{engine} on the host did not {target} in time; it may still do so.")
    if _unreachable(exc):
        return exceptions.Unavailable(
            f"Cannot {target}: {engine} does not answer on the host. Try again; the log of zun-compute says more."
        )
    return exceptions.DockerError(f"{engine} could not {target}: {exc}")


def advice(exc: Exception, url: str, engine: str = "Docker") -> str:
    """Return the operator's advice for ``exc``, which made the daemon at ``url`` unavailable."""
    program = engine.lower()  # also the name of its unit and of the group of options
    if isinstance(exc, requests.exceptions.ReadTimeout):
        return (
            f"{engine} at {url} did not answer in time. Raise [docker] default_timeout if its host is slow rather than "
            "stuck."
        )
    if isinstance(exc, docker_errors.APIError):
        see = f"See '{program} system df' and 'systemctl status {program}'."
        return f"{engine} at {url} cannot work: {exc.explanation}. {see}"
    if isinstance(_root(exc), PermissionError):
        return (
            f"This user may not use {engine} at {url} ({_root(exc)}). Put it into the group of the socket, mostly "
            f"'docker', and start the service again, or correct [{program}] api_url."
        )
    if isinstance(_root(exc), ssl.SSLError):
        return (
            f"TLS with Docker at {url} failed ({_root(exc)}). Compare [docker] ca_file, cert_file and key_file with "
            "tlscacert, tlscert and tlskey of Docker's daemon.json."
        )
    return (
        f"{engine} does not answer at {url} ({_root(exc)}). Start it with 'systemctl start {program}', or correct "
        f"[{program}] api_url."
    )


class Adviser:
    """Logs advice for the operator as a warning, and repeats of it within SILENCE_SECONDS at debug level."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._told = ""
        self._quiet_until = 0.0

    def tell(self, text: str) -> None:
        now = self._now()
        again = text == self._told and now < self._quiet_until
        LOG.log(logging.DEBUG if again else logging.WARNING, "%s", text)
        if not again:
            self._told, self._quiet_until = text, now + SILENCE_SECONDS


@contextmanager
def translated(
    action: str, uuid: str, url: str, adviser: Adviser, *, name: str | None = None, engine: str = "Docker"
) -> Iterator[None]:
    """Turn errors of docker-py inside the block into the service's errors, as ``translate`` does."""
    try:
        yield
    except FOREIGN as exc:
        error = translate(exc, action, uuid, name, engine)
        if isinstance(error, exceptions.Unavailable):
            adviser.tell(advice(exc, url, engine))
        raise error from exc


@contextmanager
def memory_blamed(memory_mib: int | None) -> Iterator[None]:
    """Raise Invalid for an APIError inside the block if the container's memory is too little for a start.

    The fault is the request's, not the host's. The same texts have other causes where the limit is higher.
    """
    try:
        yield
    except docker_errors.APIError as exc:
        if not memory_mib or memory_mib >= START_MIB or not _NO_MEMORY.search(str(exc.explanation)):
            raise
        raise exceptions.Invalid(
            f"memory {memory_mib} is too little to start the container: {exc.explanation}. Give it {START_MIB} MiB or "
            "more, because the runtime itself starts within this limit."
        ) from exc


def _unreachable(exc: Exception) -> bool:
    return isinstance(exc, requests.exceptions.ConnectionError | urllib3.exceptions.HTTPError | ConnectionError)


def _root(exc: BaseException) -> BaseException:
    while (below := exc.__cause__ or exc.__context__) is not None:
        exc = below
    return exc
