# SPDX-License-Identifier: Apache-2.0
"""The one place that turns a failure into a response.

Handlers raise; no other code turns an exception into a status. Every body has the same shape, so that clients can read
``errors[0]`` without a check.
"""

import json
import logging
import uuid
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, TypedDict

from oslo_db import exception as db_exc

from zun.common import exceptions, outages

LOG = logging.getLogger(__name__)

# The text of a Docker or database error is for the log; clients get the id to ask the operator with.
_HIDDEN = "An unexpected error prevented the server from fulfilling your request. Tell the operator this id: {id}."


class RoutingError(exceptions.ZunError):
    """An error before any resource is reached. Clients see an empty slug and the status' phrase as title."""

    def __init__(self, message: str, *, title: str | None = None, headers: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.title = title or HTTPStatus(self.code).phrase
        self.headers = list(headers)

    @classmethod
    def slug(cls) -> str:
        return ""


class PathNotFound(RoutingError):
    code = 404

    def __init__(self, message: str = "There is no such path. GET /v1/openapi.json lists the paths.") -> None:
        super().__init__(message)


class MethodNotAllowed(RoutingError):
    code = 405


class VersionNotAcceptable(RoutingError):
    code = 406


class RequestTooLarge(exceptions.Invalid):
    code = 413
    msg_fmt = "The body of the request is larger than {limit} bytes, the most that this path takes."


def translate(exc: Exception) -> exceptions.ZunError | None:
    """Return ``exc`` as an error that a client may see, or None if only the operator may read it."""
    match exc:
        case _ if isinstance(exc, outages.UNDELIVERED):
            return exceptions.Unavailable(
                "The message queue does not deliver, so no service could be reached. Try again; tell the operator if "
                "it stays so."
            )
        case db_exc.DBConnectionError():
            return exceptions.Unavailable("The database does not answer. Try again; tell the operator if it stays so.")
        case exceptions.Unavailable() | RoutingError():
            return exc
        case exceptions.ZunError() if exc.code < 500:
            return exc
    return None


class Error(TypedDict):
    request_id: str
    code: str
    status: int
    title: str
    detail: str | None
    links: list[str]


class Errors(TypedDict):
    errors: list[Error]


class Refused(TypedDict):
    code: int
    title: str
    message: str


class Unidentified(TypedDict):
    """The answer of keystone's middleware to a request without a valid token."""

    error: Refused


def _body(code: str, status: int, title: str, detail: str) -> bytes:
    error: Error = {
        "request_id": "",
        "code": f"container.{code}",
        "status": status,
        "title": title,
        "detail": detail,
        "links": [],
    }
    body: Errors = {"errors": [error]}
    return json.dumps(body).encode()


def answer(exc: Exception, method: str, start_response: Callable[..., Any]) -> list[bytes]:
    """Answer a request with the response to ``exc``, as a WSGI application does."""
    status, headers, body = render(exc, method)
    start_response(f"{status} {HTTPStatus(status).phrase}", headers)
    return [body]


def render(exc: Exception, method: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return status, headers and body of the response to ``exc``. Hidden errors are logged under the id in the body."""
    headers: list[tuple[str, str]] = []
    error = translate(exc)
    if error is not None:
        status, title = error.code, str(error)
        if isinstance(error, RoutingError):
            title, headers = error.title, error.headers
        body = _body(error.slug(), status, title, str(error))
    else:
        status, incident = 500, uuid.uuid4()
        LOG.error("Unexpected error %s", incident, exc_info=exc)
        body = _body("", status, "Internal Server Error", _HIDDEN.format(id=incident))
    if method == "HEAD":
        body = b""  # a response to HEAD has none
    return status, [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers], body
