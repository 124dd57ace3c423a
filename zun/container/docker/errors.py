# SPDX-License-Identifier: Apache-2.0
"""Docker's errors, turned into the service's own at the edge."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import requests.exceptions
import urllib3.exceptions
from docker import errors as docker_errors

from zun.common import exceptions

#: What a call through docker-py may raise that is about the daemon and not about our code. StreamParseError
#: is a broken JSON stream: the connection went away in the middle of a value.
FOREIGN = (
    docker_errors.DockerException,
    docker_errors.StreamParseError,
    requests.exceptions.RequestException,
    urllib3.exceptions.HTTPError,
    OSError,
)

# Docker answers some wrong states with 500 (unpause, API 1.41), so the text decides.
_WRONG_STATE = re.compile(
    r"\bis not running|\bis not paused|\bis paused|\balready paused|\bpaused container|\bis restarting"
    r"|\bis marked for removal"
)


def translate(exc: Exception, action: str, uuid: str, url: str) -> exceptions.ZunError:
    """Return the service's error for ``exc``, met in ``action`` on container ``uuid`` ("" for none)."""
    target = f"{action} container {uuid}" if uuid else action
    if isinstance(exc, docker_errors.ImageNotFound):
        return exceptions.ImageNotFound(
            f"Cannot {target}: {exc.explanation}. Pull it on the host with 'docker pull', or use the "
            f"pull policy ifnotpresent or always."
        )
    if isinstance(exc, docker_errors.NotFound) and uuid:
        return exceptions.ContainerNotFound(f"Docker has no object of container {uuid}: {exc.explanation}")
    if isinstance(exc, docker_errors.APIError):
        reason = str(exc.explanation or exc)
        if exc.status_code == 409 or _WRONG_STATE.search(reason):
            return exceptions.Conflict(f"Cannot {target}: {reason}")
        return exceptions.DockerError(f"Docker could not {target}: {reason}")
    if isinstance(exc, requests.exceptions.ReadTimeout):
        return exceptions.Unavailable(
            f"Docker at {url} did not {target} in time; it may still do so. Raise [docker] default_timeout "
            f"if its host is slow rather than stuck."
        )
    if _unreachable(exc) and isinstance(_root(exc), PermissionError):
        return exceptions.Unavailable(
            f"Cannot {target}: this user may not use Docker at {url} ({_root(exc)}). Put it into the group of the "
            f"socket, mostly 'docker', and start the service again, or correct [docker] api_url."
        )
    if _unreachable(exc):
        return exceptions.Unavailable(
            f"Cannot {target}: Docker does not answer at {url} ({_root(exc)}). Start it with "
            f"'systemctl start docker', or correct [docker] api_url."
        )
    return exceptions.DockerError(f"Docker could not {target}: {exc}")


@contextmanager
def translated(action: str, uuid: str, url: str) -> Iterator[None]:
    """Inside, errors of docker-py become the service's own."""
    try:
        yield
    except FOREIGN as exc:
        raise translate(exc, action, uuid, url) from exc


def _unreachable(exc: Exception) -> bool:
    if isinstance(exc, requests.exceptions.ConnectionError | urllib3.exceptions.HTTPError | ConnectionError):
        return True
    # docker-py hides the reason of a failed version negotiation behind its plainest class.
    return isinstance(_root(exc), OSError) and not isinstance(exc, OSError)


def _root(exc: BaseException) -> BaseException:
    while (below := exc.__cause__ or exc.__context__) is not None:
        exc = below
    return exc
