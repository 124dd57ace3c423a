# SPDX-License-Identifier: Apache-2.0
"""The layer that serves the page of ``zun.ui`` under ``/ui/``, and the login of its users.

Every other path goes to the API. The answers are made when the program starts, except those to a login.
"""

import base64
import json
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_middleware import cors

from zun.api import browsers, client_address, errors, limits, login, microversion, request, tags
from zun.api.client_address import WsgiApp
from zun.api.schemas.login import LOGIN
from zun.common import exceptions
from zun.ui import files
from zun.ui.files import File

PREFIX = "/ui/"
CONFIG = "config.json"
SIGN_IN = "login"
TERMINAL = "terminal.html"  # a frame of the page

Headers = list[tuple[str, str]]
StartResponse = Callable[..., Any]

_FOR_EVERY_FILE: Headers = [
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-cache"),  # a cache asks each time, with the tag
]


def content_security_policy(path: str, console_origins: Iterable[str]) -> str:
    """Return the policy of the file at ``path`` below ``/ui/``.

    The terminal is a frame of the page, and the library that draws it writes styles into its own document.
    """
    styles, frames, ancestors = ("'self'", "'self'", "'none'")
    # No text becomes markup, except the templates of the one library that draws the page.
    markup = ["require-trusted-types-for 'script'", "trusted-types lit-html"]
    if path == TERMINAL:
        styles, frames, ancestors, markup = ("'self' 'unsafe-inline'", "'none'", "'self'", [])
    return "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            f"style-src {styles}",
            "img-src 'self'",
            " ".join(["connect-src 'self'", *console_origins]),
            f"frame-src {frames}",
            "base-uri 'none'",
            "form-action 'none'",
            f"frame-ancestors {ancestors}",
            *markup,
        ]
    )


def origins(conf: cfg.ConfigOpts) -> list[str]:
    """Return the origins of the hosts' terminals. Raises Misconfigured for a malformed one."""
    found = conf.ui.console_origins or [conf.websocket_proxy.base_url]
    return [_origin(each) for each in found]


def _origin(url: str) -> str:
    """Return scheme, host and port of a websocket's URL: ``ws://node-1.example:6784`` of ``ws://node-1.example:6784/``.

    A text with a space or a semicolon would be another rule of the policy.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        fits = parts.scheme in ("ws", "wss") and parts.netloc and not set(url) & set(" ;,'\"") and url.isprintable()
    except ValueError:
        fits = False
    if not fits:
        raise exceptions.Misconfigured(f"[ui] console_origins: {url!r} is not of the form wss://HOST:PORT.")
    return f"{parts.scheme}://{parts.netloc}"


class Pages:
    """Serves ``/ui/``, and passes everything else to ``app``.

    ``identify`` puts the middleware of the API's strategy in front of an application. ``keystone`` logs people in if
    that strategy is keystone, and is None otherwise.
    """

    def __init__(
        self,
        app: WsgiApp,
        conf: cfg.ConfigOpts,
        identify: Callable[[WsgiApp], WsgiApp],
        keystone: login.Keystone | None,
    ) -> None:
        conf.register_opts(cors.OPTS, group="cors")
        self._app = app
        self._default_domain = conf.ui.default_domain
        self._allowed_origins = conf.cors.allowed_origin or ()
        self._keystone = keystone
        self._known = identify(_known) if keystone is None else None
        found = files.packaged()
        found[""] = found[files.PAGE]
        found[CONFIG] = File(_config(conf), request.JSON)
        consoles = origins(conf)
        self._files: Mapping[str, tuple[File, Headers]] = {
            path: (
                file,
                [
                    *_FOR_EVERY_FILE,
                    ("ETag", file.etag),
                    ("Content-Security-Policy", content_security_policy(path, consoles)),
                ],
            )
            for path, file in found.items()
        }

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path, method = environ.get("PATH_INFO", ""), environ["REQUEST_METHOD"]
        if path != PREFIX.rstrip("/") and not path.startswith(PREFIX):
            return self._app(environ, start_response)
        try:
            if path == PREFIX + SIGN_IN:
                return self._login(environ, start_response)
            return self._file(path, environ, start_response)
        except Exception as exc:
            return errors.answer(exc, method, start_response)

    def _file(self, path: str, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        if method not in ("GET", "HEAD"):
            raise errors.MethodNotAllowed(
                f"{method} is not possible here; possible is GET, HEAD.", headers=[("Allow", "GET, HEAD")]
            )
        if path == PREFIX.rstrip("/"):
            # Relative, as a proxy in front may serve the API below a path of its own.
            start_response("308 Permanent Redirect", [("Location", "ui/"), ("Content-Length", "0")])
            return []
        found = self._files.get(path.removeprefix(PREFIX))
        if found is None:
            raise errors.PathNotFound("There is no such file under /ui/. Open /ui/ itself in the browser.")
        file, headers = found
        if tags.matches(environ.get("HTTP_IF_NONE_MATCH"), file.etag):
            start_response("304 Not Modified", headers)
            return []
        length = ("Content-Length", str(len(file.content)))
        start_response("200 OK", [("Content-Type", file.content_type), length, *headers])
        return [] if method == "HEAD" else [file.content]

    def _login(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "POST":
            raise errors.MethodNotAllowed("The login is possible by POST only.", headers=[("Allow", "POST")])
        request_id = environ["openstack.request_id"] = oslo_context.generate_request_id()
        environ["zun.path"] = ("ui", SIGN_IN)

        def start(status: str, headers: Headers, exc_info: Any = None) -> Any:
            added = [("Cache-Control", "no-store"), ("x-openstack-request-id", request_id)]
            return start_response(status, [*headers, *added], exc_info)

        try:
            # With every strategy, so that no foreign page tries passwords from the browsers of others.
            if refusal := browsers.origin_refusal(environ, self._allowed_origins):
                raise exceptions.Forbidden(refusal)
            request.check_length(environ)
            request.check_header_names(environ)
            if not request.is_json(environ):
                raise exceptions.UnsupportedMediaType(content_type=f"'{environ.get('CONTENT_TYPE') or ''}'")
            given = LOGIN(request.body_arguments(environ, limits.LOGIN_BYTES))
            if self._keystone is not None:
                whole = login.complete(given, self._default_domain)
                return _json(self._keystone.sign_in(whole, client_address.of(environ) or "-"), start)
            assert self._known is not None
            if "user" in given or "password" in given:
                environ["HTTP_AUTHORIZATION"] = _authorization(given.get("user", ""), given.get("password", ""))
            return self._known(environ, start)
        except Exception as exc:
            return errors.answer(exc, "POST", start)


def _authorization(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _known(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    return _json(login.known(environ["zun.context"]), start_response)


def _json(body: Any, start_response: StartResponse) -> Iterable[bytes]:
    text = json.dumps(body).encode()
    start_response("200 OK", [("Content-Type", request.JSON), ("Content-Length", str(len(text)))])
    return [text]


def _config(conf: cfg.ConfigOpts) -> bytes:
    """Return what the page must know before the login."""
    return json.dumps(
        {
            "auth_strategy": conf.api.auth_strategy,
            "default_domain": conf.ui.default_domain,
            "min_version": str(microversion.MIN),
            "max_version": str(microversion.MAX),
        }
    ).encode()
