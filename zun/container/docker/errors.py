# SPDX-License-Identifier: Apache-2.0
"""Docker's errors, turned into the service's own at the edge."""

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import requests.exceptions
import urllib3.exceptions
from docker import errors as docker_errors

from zun.common import exceptions

LOG = logging.getLogger(__name__)

#: What a call through docker-py may raise that is about the daemon and not about our code. StreamParseError
#: is a broken JSON stream: the connection went away in the middle of a value.
FOREIGN = (
    docker_errors.DockerException,
    docker_errors.StreamParseError,
    requests.exceptions.RequestException,
    urllib3.exceptions.HTTPError,
    OSError,
)

#: A daemon that is away is met by whatever is done, and every two seconds by who waits for its events.
SILENCE_SECONDS = 60.0

# Docker answers some wrong states with 500 (unpause, API 1.41), so the text decides.
_WRONG_STATE = re.compile(
    r"\bis not running|\bis not paused|\bis paused|\balready paused|\bpaused container|\bis restarting"
    r"|\bis marked for removal"
)

#: What Docker, containerd and runc say of a process that Docker has not yet noticed to be gone: first it has stopped,
#: then its shim knows it no more, then the shim has closed its connection, then containerd has forgotten the task.
ENDING = re.compile(
    r"not running|stopped (?:container|state)|deleted (?:process|state)|container does not exist|container not created"
    r"|ttrpc: closed|task \S+ not found|^no such container$"
)
# These bring the process, or try again: what they fail with in the end is a failure.
_NEED_NO_PROCESS = frozenset({"create", "start", "restart", "update"})

# The same on every host. Docker answers 400, as it does where a control group of the host denies permission.
_NO_COMMAND = re.compile(r'\bexec: "|\bexecutable file\b')

# A member of a capsule is started in the network of another object, which may be the one that is missing.
_JOINING = frozenset({"start", "restart"})
_NO_OBJECT = "No such container: "

#: What can be done about words of Docker, which are the reason that users are told, and what error they are.
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


def translate(exc: Exception, action: str, uuid: str) -> exceptions.ZunError:
    """Return the service's error for ``exc``, met in ``action`` on container ``uuid`` ("" for none).

    Users read an Unavailable: where the daemon is, and what to do about it, is in ``advice``.
    """
    target = f"{action} container {uuid}" if uuid else action
    if isinstance(exc, docker_errors.ImageNotFound):
        return exceptions.ImageNotFound(
            f"Cannot {target}: {exc.explanation}. Pull it on the host with 'docker pull', or use the "
            f"pull policy ifnotpresent or always."
        )
    reason = str(exc.explanation or exc) if isinstance(exc, docker_errors.APIError) else ""
    if action in _JOINING and _NO_OBJECT in reason and uuid not in reason:
        return exceptions.ContainerVanished(
            f"Cannot {target}: what keeps the network of its capsule was removed on the host. Delete the capsule, and "
            "create it anew."
        )
    ended = uuid and action not in _NEED_NO_PROCESS and ENDING.search(reason)
    if isinstance(exc, docker_errors.NotFound) and uuid and not ended:
        return exceptions.ContainerVanished(
            f"Docker has no object of container {uuid} any more: {exc.explanation}. Rebuild the container, or delete "
            "it here as well."
        )
    if isinstance(exc, docker_errors.APIError):
        if exc.status_code == 409 or _WRONG_STATE.search(reason):
            return exceptions.Conflict(f"Cannot {target}: {reason}")
        if ended:
            return exceptions.Conflict(f"Cannot {target}: its process has just ended.")
        if action == "start" and _NO_COMMAND.search(reason):
            return exceptions.Invalid(f"Docker could not {target}: {reason}")
        for words, step, error in _NEXT:
            if words in reason:
                return error(f"Docker could not {target}: {reason}. {step}")
        return exceptions.DockerError(f"Docker could not {target}: {reason}")
    if isinstance(exc, requests.exceptions.ReadTimeout):
        return exceptions.Unavailable(f"Docker on the host did not {target} in time; it may still do so.")
    if _unreachable(exc):
        return exceptions.Unavailable(
            f"Cannot {target}: Docker does not answer on the host. Try again; the log of zun-compute says more."
        )
    return exceptions.DockerError(f"Docker could not {target}: {exc}")


def advice(exc: Exception, url: str) -> str:
    """For the operator, when ``exc`` made the daemon at ``url`` unavailable."""
    if isinstance(exc, requests.exceptions.ReadTimeout):
        return (
            f"Docker at {url} did not answer in time. Raise [docker] default_timeout if its host is slow rather than "
            "stuck."
        )
    if isinstance(exc, docker_errors.APIError):
        return f"Docker at {url} cannot work: {exc.explanation}. See 'docker system df' and 'systemctl status docker'."
    if isinstance(_root(exc), PermissionError):
        return (
            f"This user may not use Docker at {url} ({_root(exc)}). Put it into the group of the socket, mostly "
            "'docker', and start the service again, or correct [docker] api_url."
        )
    return (
        f"Docker does not answer at {url} ({_root(exc)}). Start it with 'systemctl start docker', or correct [docker] "
        "api_url."
    )


class Adviser:
    """Tells the operator, and the same once more only after SILENCE_SECONDS."""

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
def translated(action: str, uuid: str, url: str, adviser: Adviser) -> Iterator[None]:
    """Inside, errors of docker-py become the service's own."""
    try:
        yield
    except FOREIGN as exc:
        error = translate(exc, action, uuid)
        if isinstance(error, exceptions.Unavailable):
            adviser.tell(advice(exc, url))
        raise error from exc


def _unreachable(exc: Exception) -> bool:
    if isinstance(exc, requests.exceptions.ConnectionError | urllib3.exceptions.HTTPError | ConnectionError):
        return True
    # docker-py hides the reason of a failed version negotiation behind its plainest class.
    return isinstance(_root(exc), OSError) and not isinstance(exc, OSError)


def _root(exc: BaseException) -> BaseException:
    while (below := exc.__cause__ or exc.__context__) is not None:
        exc = below
    return exc
