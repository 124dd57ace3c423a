# SPDX-License-Identifier: Apache-2.0
"""Users of an installation without keystone: a file of password hashes, and a file of projects and roles.

The reading of headers and hashes is oslo.middleware's. Its middleware as such is not used: it answers every failure
behind it with 401, and 401 without the header that HTTP asks for.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import webob.exc
from oslo_middleware import basic_auth
from oslo_middleware import exceptions as oslo_exceptions

from zun.common import exceptions

LOG = logging.getLogger(__name__)

DEFAULT_ROLES = ("member",)


@dataclass(frozen=True, slots=True)
class Identity:
    user: str
    project: str
    roles: tuple[str, ...]


class Users:
    """Both files are read at every request, so that a change needs no restart: the hash costs more by far."""

    def __init__(self, user_file: str, project_file: str | None) -> None:
        """Raises SystemExit when a file cannot be read or understood, so that the program does not start with it."""
        self._user_file = user_file
        self._project_file = project_file
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
        """Who sends the request, or None when it does not prove it. Takes the password out of ``environ``.

        Raises Unavailable when the projects cannot be read any more.
        """
        given = environ.pop("HTTP_AUTHORIZATION", None)
        if given is None:
            return None
        try:
            user, password = basic_auth.parse_token(basic_auth.parse_header({"HTTP_AUTHORIZATION": given}))
            if not user or not user.isprintable():  # it is going to be logged
                return None
            basic_auth.authenticate(self._user_file, user, password)
        except webob.exc.HTTPUnauthorized:
            LOG.info("Refused the password of user %s from %s", user, environ.get("REMOTE_ADDR", "-"))
            return None
        except webob.exc.HTTPBadRequest as exc:
            LOG.info("Refused a request from %s: %s", environ.get("REMOTE_ADDR", "-"), exc.detail)
            return None
        except ValueError:  # bcrypt takes no password of more than 72 bytes, and no broken hash
            return None
        try:
            projects = self._projects()
        except (OSError, ValueError) as exc:
            LOG.error("Nobody can be identified: %s", exc)
            raise exceptions.Unavailable("The file of projects cannot be read. Tell the operator.") from exc
        return projects.get(user) or Identity(user, user, DEFAULT_ROLES)

    def _projects(self) -> Mapping[str, Identity]:
        """Identities by user. ValueError for a line that is none."""
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
