# SPDX-License-Identifier: Apache-2.0
"""Who asks: middleware that leaves the identity of a request in ``environ['zun.context']``.

The version documents are public and pass without one.
"""

from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg

from zun.api import request
from zun.common import exceptions
from zun.common.context import RequestContext

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_IDENTITY_HEADERS = ("HTTP_X_USER_ID", "HTTP_X_PROJECT_ID", "HTTP_X_ROLES")


def wrap(app: WsgiApp, conf: cfg.ConfigOpts) -> WsgiApp:
    """Put the middleware of ``[api] auth_strategy`` in front of ``app``."""
    if conf.api.auth_strategy == "noauth":
        return _noauth(app)
    return _keystone(app, conf)


def _noauth(app: WsgiApp) -> WsgiApp:
    """Believe the identity headers. A request with none of them is the administrator of a project called
    admin.
    """

    def middleware(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["zun.path"] not in request.DOCUMENTS:
            if not any(environ.get(name) for name in _IDENTITY_HEADERS):
                environ["HTTP_X_ROLES"] = "admin"
            environ["HTTP_X_USER_ID"] = environ.get("HTTP_X_USER_ID") or "admin"
            environ["HTTP_X_PROJECT_ID"] = environ.get("HTTP_X_PROJECT_ID") or "admin"
            environ["zun.context"] = RequestContext.from_environ(environ)
        return app(environ, start_response)

    return middleware


def _keystone(app: WsgiApp, conf: cfg.ConfigOpts) -> WsgiApp:
    """Have keystone's middleware check the token; it answers 401 itself."""
    from keystonemiddleware import auth_token  # 14 MiB that only this strategy needs

    def identified(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["zun.context"] = context = RequestContext.from_environ(environ)
        if not context.project_id:
            raise exceptions.Forbidden(
                "Containers belong to projects and this token is for none: authenticate with a project "
                "(OS_PROJECT_NAME or OS_PROJECT_ID)."
            )
        return app(environ, start_response)

    checked = auth_token.AuthProtocol(identified, {"oslo_config_config": conf})

    def middleware(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["zun.path"] in request.DOCUMENTS:
            return app(environ, start_response)

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            if status.startswith("503") and ("Content-Type", request.JSON) not in headers:
                raise exceptions.Unavailable(  # its own page is HTML
                    "Keystone does not answer, so the token cannot be checked. Try again; tell the operator if it "
                    "stays so."
                )
            return start_response(status, headers, exc_info)

        return checked(environ, start)

    return middleware
