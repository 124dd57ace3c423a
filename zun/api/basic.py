# SPDX-License-Identifier: Apache-2.0
"""Users of an installation without keystone: a file of password hashes, and a file of projects and roles.

oslo.middleware parses headers and hashes. Its middleware class is not used: it answers 401 to every failure behind it,
and leaves out the header that HTTP requires with 401.
"""

import collections
import hashlib
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import bcrypt
import webob.exc
from oslo_middleware import basic_auth
from oslo_middleware import exceptions as oslo_exceptions

from zun.api import client_address, errors, limits
from zun.common import exceptions

LOG = logging.getLogger(__name__)

DEFAULT_ROLES = ("member",)

_SHOWN = 64  # characters of a user name in the log


@dataclass(frozen=True, slots=True)
class Identity:
    user: str
    project: str
    roles: tuple[str, ...]


class TooManyTries(errors.RoutingError):
    """The caller must wait ``seconds`` before another password is checked."""

    code = 429

    def __init__(self, seconds: int) -> None:
        message = f"Too many wrong passwords. Try again in {seconds} seconds, with the right one."
        super().__init__(message, headers=[("Retry-After", str(seconds))])


class Tries:
    """Count wrong passwords by user name and client address in this process. The user name need not exist."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failed: collections.OrderedDict[bytes, tuple[int, float]] = collections.OrderedDict()

    def wait(self, user: str, address: str) -> int:
        """Return in how many seconds the next password is looked at: 0 for now."""
        with self._lock:
            count, last = self._failed.get(_key(user, address), (0, 0.0))
        wait = math.ceil(last + limits.WAIT_SECONDS - self._clock())
        return max(0, wait) if count >= limits.WRONG_PASSWORDS else 0

    def failed(self, user: str, address: str) -> int:
        """Count a wrong password. Return how many there were since the last right one."""
        key = _key(user, address)
        with self._lock:
            count = self._failed.pop(key, (0, 0.0))[0] + 1
            self._failed[key] = count, self._clock()
            if len(self._failed) > limits.KEPT_NAMES:
                self._failed.popitem(last=False)
        return count

    def passed(self, user: str, address: str) -> None:
        """Forget the wrong passwords that came before a right one."""
        with self._lock:
            self._failed.pop(_key(user, address), None)


def _key(user: str, address: str) -> bytes:
    """Return what stands for a user name at an address: as few bytes for a long name as for a short one."""
    return hashlib.sha256(f"{user}\0{address}".encode("utf-8", "surrogatepass")).digest()


class Users:
    """The users of the two files. Both are read at every request, so a change needs no restart; the hash costs far
    more.
    """

    def __init__(self, user_file: str, project_file: str | None, tries: Tries | None = None) -> None:
        """Raises SystemExit when a file cannot be read or understood, so that the program does not start with it."""
        self._user_file = user_file
        self._project_file = project_file
        self._tries = tries or Tries()
        try:
            basic_auth.validate_auth_file(user_file)
        except (oslo_exceptions.ConfigInvalid, webob.exc.HTTPException) as exc:
            raise SystemExit(
                f"[api] http_basic_user_file: {user_file} cannot be read or has a hash other than bcrypt. Write it "
                f"with 'htpasswd -B {user_file} USER', readable by the service's user only. ({exc})"
            ) from exc
        try:
            self._projects()
        except (OSError, ValueError) as exc:
            raise SystemExit(f"[api] http_basic_project_file: {exc}") from exc

    def identify(self, environ: dict[str, Any]) -> Identity | None:
        """Return the caller's identity, or None if the password is missing or wrong. Removes the password from
        ``environ``.

        Raises Unavailable if the projects can no longer be read, and TooManyTries.
        """
        given = environ.pop("HTTP_AUTHORIZATION", None)
        if given is None:
            return None
        address = client_address.of(environ) or "-"
        try:
            user, password = basic_auth.parse_token(basic_auth.parse_header({"HTTP_AUTHORIZATION": given}))
            if not user or not user.isprintable():  # it is going to be logged
                return None
            if wait := self._tries.wait(user, address):
                raise TooManyTries(wait)
            right = self._is_right(user, password)
        except (webob.exc.HTTPUnauthorized, webob.exc.HTTPBadRequest) as exc:
            LOG.info("Refused a request from %s: %s", address, exc.detail)
            return None
        if not right:
            level = logging.WARNING if self._tries.failed(user, address) == limits.WRONG_PASSWORDS else logging.INFO
            LOG.log(level, "Refused the password of user %s from %s", user[:_SHOWN], address)
            return None
        self._tries.passed(user, address)
        try:
            projects = self._projects()
        except (OSError, ValueError) as exc:
            LOG.error("Nobody can be identified: %s", exc)
            raise exceptions.Unavailable("The file of projects cannot be read. Tell the operator.") from exc
        return projects.get(user) or Identity(user, user, DEFAULT_ROLES)

    def _is_right(self, user: str, password: bytes) -> bool:
        """Return whether the password is the user's. An unknown user takes as long as a known one.

        Raises HTTPBadRequest if the file can no longer be read, or has another kind of hash for the user.
        """
        hashes: dict[str, bytes] = {}
        try:
            with open(self._user_file, encoding="utf-8") as lines:
                for line in lines:
                    name, colon, hashed = line.strip().partition(":")
                    if colon:
                        hashes.setdefault(name, hashed.encode())
        except (OSError, ValueError) as exc:
            LOG.error("Nobody can be identified: %s", exc)
            raise webob.exc.HTTPBadRequest(detail="the file of users cannot be read") from exc
        # Nobody's hash is compared with for an unknown user: the cost is what matters, and mostly the same for all.
        compared = hashes.get(user) or max(hashes.values(), key=_cost, default=b"")
        basic_auth.parse_entry(f"{user}:{compared.decode()}")
        try:
            right = bcrypt.checkpw(password, compared)
        except ValueError:  # bcrypt takes no password of more than 72 bytes, and no broken hash
            right = False
        return right and user in hashes

    def _projects(self) -> Mapping[str, Identity]:
        """Return the identities by user. Raises ValueError for a malformed line."""
        found: dict[str, Identity] = {}
        if self._project_file is None:
            return found
        with open(self._project_file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                line = line.strip()
                if not line or line.startswith("#"):
                    continue
                fields = [field.strip() for field in line.split(":")]
                if len(fields) != 3 or not all(fields) or fields[0] in found:
                    raise ValueError(
                        f"{self._project_file}, line {number}: it is not NAME:PROJECT:ROLE[,ROLE], or a user's second."
                    )
                user, project, roles = fields
                found[user] = Identity(user, project, tuple(role.strip() for role in roles.split(",") if role.strip()))
        return found


def _cost(hashed: bytes) -> bytes:
    """Return the cost of a bcrypt hash as comparable text: ``05`` for ``$2y$05$...``."""
    return hashed[4:6]
