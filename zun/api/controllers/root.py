# SPDX-License-Identifier: Apache-2.0
"""The one pecan controller. It finds the row of the route table, reads the request and renders the answer.

pecan's own dispatch by attribute is not used: it would answer paths that only look like ours, let
``?_method=DELETE`` change the verb, and read the arguments by other rules than the API's.
"""

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson
import pecan

from zun.api import audit, client_address, errors, microversion, request, tags
from zun.api.microversion import Version
from zun.api.policy import Access, Policy
from zun.api.routes import NO_CONTENT, NOTHING, Answer, Route, Router
from zun.api.transfers import AtOnce
from zun.api.views import versions
from zun.common import exceptions
from zun.version import release


class Root:
    """Answers requests from ``router``'s table. ``describe`` returns the OpenAPI document of a version. ``waits``
    counts the requests that wait for others. ``identity_headers`` are those by which the API knows callers.
    """

    def __init__(
        self,
        router: Router,
        policy: Policy,
        describe: Callable[[Version], Mapping[str, Any]],
        waits: AtOnce,
        identity_headers: str,
    ) -> None:
        self._router = router
        self._policy = policy
        self._waits = waits
        self._identity_headers = identity_headers
        self._release = release()
        self._describe = functools.lru_cache(maxsize=4)(lambda version: (_rendered(describe(version)),))

    @pecan.expose()
    def _route(self, args: list[str], request: Any) -> tuple[Any, list[str]]:
        return self.serve, []

    @pecan.expose("json")
    def serve(self, req: Any, response: Any) -> Any:
        answer = self._answer(req.environ["zun.request"], response)
        if answer.body is NOTHING:
            del response.content_length
            return response
        response.content_type = request.JSON
        if isinstance(answer.body, Iterator):
            response.app_iter = answer.body
        else:
            response.body = b"".join(answer.body) if isinstance(answer.body, tuple) else _rendered(answer.body)
        return response

    def _answer(self, environ: dict[str, Any], response: Any) -> Answer:
        """Return the handler's answer, and set the status and the Location of ``response``."""
        method, path = environ["REQUEST_METHOD"], environ["zun.path"]
        base_url = request.base_url(environ)
        if path in request.DOCUMENTS:
            if method != "GET":
                raise errors.MethodNotAllowed(f"{method} is not possible here.", headers=[("Allow", "GET")])
            if path == request.OPENAPI:
                return self._description(environ)
            return Answer(versions.v1(base_url, self._router.nouns) if path else versions.root(base_url))
        version = environ["zun.version"]
        route, parameters = self._router.match(method, path[1:])
        microversion.require(version, route.since, route.until, f"{route.method} {route.path}")
        body = {}
        if method in ("POST", "PUT", "PATCH"):
            if route.json_only and not request.is_json(environ):
                raise exceptions.UnsupportedMediaType(content_type=f"'{environ.get('CONTENT_TYPE') or ''}'")
            if not route.streams:
                body = request.body_arguments(environ)
        access = Access(self._policy, environ["zun.context"])
        call = request.Call(
            access=access,
            version=version,
            base_url=base_url,
            parameters=parameters,
            query=request.query_arguments(environ.get("QUERY_STRING", "")),
            body=body,
            stream=request.body_stream(environ) if route.streams else None,
            client_address=client_address.of(environ),
        )
        try:
            answer = self._waited(route, call) if route.waits else route.handler(call)
        finally:
            environ[audit.TARGET] = access.target
        response.status_int = route.status
        if answer.state is not None:
            return self._of_state(answer, environ, call, response)
        if answer.created is not None:
            environ[audit.TARGET] = answer.created
            response.headers["Location"] = f"{base_url}/v1/{route.path}/{answer.created}"
        return answer

    def _of_state(self, answer: Answer, environ: Mapping[str, Any], call: request.Call, response: Any) -> Answer:
        """Return ``answer`` with its body, or with none and status 304 for a client that has the body."""
        caller = call.context
        asked = tags.Asked(
            url=f"{call.base_url}/{'/'.join(environ['zun.path'])}",
            query=environ.get("QUERY_STRING", ""),
            version=str(call.version),
            user=caller.user_id,
            project=caller.project_id,
            roles=tuple(sorted(caller.roles)),
            release=self._release,
        )
        tag = tags.tag(asked, answer.state)
        response.headers["ETag"] = tag
        response.headers["Cache-Control"] = "private, no-cache"  # a cache asks each time, with the tag
        response.headers["Vary"] = self._identity_headers
        if tags.matches(environ.get("HTTP_IF_NONE_MATCH"), tag):
            response.status_int = 304
            return NO_CONTENT
        return Answer(answer.body())

    def _waited(self, route: Route, call: request.Call) -> Answer:
        """Return the handler's answer. The request counts among those that wait until the answer has its last byte."""
        with contextlib.ExitStack() as counted:
            counted.enter_context(self._waits.one(call.context.project_id or ""))
            answer = route.handler(call)
            if isinstance(answer.body, Iterator):
                return replace(answer, body=_Pieces(answer.body, counted.pop_all()))
        return answer

    def _description(self, environ: dict[str, Any]) -> Answer:
        """Return the OpenAPI document of the version that the query names, else of the newest version."""
        wanted = request.query_arguments(environ.get("QUERY_STRING", "")).get("version", "latest")
        return Answer(self._describe(microversion.negotiate(f"{microversion.SERVICE} {wanted}")))


class _Pieces(Iterator[bytes]):
    """The pieces of an answer. ``then`` is closed behind the last one, or with the answer."""

    def __init__(self, pieces: Iterator[bytes], then: contextlib.ExitStack) -> None:
        self._pieces = pieces
        self._then = then

    def __next__(self) -> bytes:
        try:
            return next(self._pieces)
        except BaseException:
            self._then.close()
            raise

    def close(self) -> None:
        """Close the pieces, as a WSGI server does when the client has gone."""
        with self._then:
            getattr(self._pieces, "close", lambda: None)()


def _rendered(body: Any) -> bytes:
    """Return ``body`` as JSON text."""
    try:
        return orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # a whole number of more than 64 bits, which orjson does not write
        return json.dumps(body).encode()
