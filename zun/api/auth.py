# SPDX-License-Identifier: Apache-2.0
"""Authentication: middleware that puts the caller's identity into ``environ['zun.context']``.

The version documents are public and need no identity.
"""

import importlib.util
import ipaddress
import json
import logging
from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg
from oslo_middleware import cors

from zun.api import basic, browsers, errors, request
from zun.common import exceptions
from zun.common.context import RequestContext

LOG = logging.getLogger(__name__)

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

KEYSTONE_SECONDS = 10  # for one answer, unless [keystone_authtoken] http_connect_timeout says otherwise

_IDENTITY_HEADERS = ("HTTP_X_USER_ID", "HTTP_X_PROJECT_ID", "HTTP_X_ROLES")


def identity_headers(conf: cfg.ConfigOpts) -> str:
    """Return the headers of a request by which ``[api] auth_strategy`` knows the caller, for ``Vary``."""
    named = {"noauth": "X-User-Id, X-Project-Id, X-Roles", "http_basic": "Authorization"}
    return named.get(conf.api.auth_strategy, "X-Auth-Token")


def strategy(conf: cfg.ConfigOpts) -> Callable[[WsgiApp], WsgiApp]:
    """Return what puts the middleware of ``[api] auth_strategy`` in front of an application. All its applications share
    the users and the wrong passwords of http_basic.
    """
    match conf.api.auth_strategy:
        case "noauth":
            anybody = conf.api.allow_noauth_on_any_address
            own = browsers.own_names(conf.api.host_ip, conf.api.host_names, any_address=anybody)
            return lambda app: _own_pages(_noauth(app, anybody=anybody), conf, own)
        case "http_basic":
            users = basic.Users(conf.api.http_basic_user_file, conf.api.http_basic_project_file)
            # Not the host: a browser keeps a password for the name it was typed for, and no other name gets it.
            return lambda app: _own_pages(_http_basic(app, users), conf, lambda host: True)
        case _:
            return lambda app: _keystone(app, conf)


def wrap(app: WsgiApp, identify: Callable[[WsgiApp], WsgiApp]) -> WsgiApp:
    """Put the middleware of ``identify`` in front of ``app``, for all but the documents."""
    identified = identify(app)

    def middleware(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        asked = app if environ["zun.path"] in request.DOCUMENTS else identified
        return asked(environ, start_response)

    return middleware


def _own_pages(app: WsgiApp, conf: cfg.ConfigOpts, own: Callable[[str], bool]) -> WsgiApp:
    """Refuse what a browser sends for a foreign page, or to a host name that is not ``own``."""
    conf.register_opts(cors.OPTS, group="cors")
    allowed = conf.cors.allowed_origin or ()

    def middleware(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        refusal = browsers.host_refusal(environ, own) or browsers.origin_refusal(environ, allowed)
        if refusal is not None:
            LOG.warning("Refused a request from %s: %s", environ.get("REMOTE_ADDR") or "a local socket", refusal)
            raise exceptions.Forbidden(refusal)
        return app(environ, start_response)

    return middleware


def _noauth(app: WsgiApp, *, anybody: bool) -> WsgiApp:
    """Trust the identity headers. Without any, the caller is the administrator of a project called admin; with a user
    or project but no roles, the caller is a member.

    Unless ``anybody`` is set, the client must be on loopback. The server in front of the application decides where it
    listens, so the client's address is the only evidence here. A socket without addresses may be a reverse proxy's and
    is refused.
    """

    def middleware(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        client = environ.get("REMOTE_ADDR") or ""
        if not anybody and not is_loopback(client):
            LOG.warning("Refused a request from %s, as [api] auth_strategy is noauth", client or "a local socket")
            raise exceptions.Forbidden(
                "This server checks nobody's identity ([api] auth_strategy = noauth), so it answers clients on its "
                "own machine only. Its operator can use keystone, or set [api] allow_noauth_on_any_address."
            )
        named = any(environ.get(name) for name in _IDENTITY_HEADERS)
        environ["HTTP_X_ROLES"] = environ.get("HTTP_X_ROLES") or ("member" if named else "admin")
        environ["HTTP_X_USER_ID"] = environ.get("HTTP_X_USER_ID") or "admin"
        environ["HTTP_X_PROJECT_ID"] = environ.get("HTTP_X_PROJECT_ID") or "admin"
        environ["zun.context"] = RequestContext.from_environ(environ)
        return app(environ, start_response)

    return middleware


def is_loopback(address: str) -> bool:
    """Return whether ``address`` is a loopback address; False for malformed text."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)  # a socket of both families: ::ffff:127.0.0.1
    return bool((mapped or found).is_loopback)


def _http_basic(app: WsgiApp, users: basic.Users) -> WsgiApp:
    """Check name and password of each request. Other identity headers are ignored."""

    def middleware(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        identity = users.identify(environ)
        if identity is None:
            return _unauthorized(start_response)
        environ["zun.context"] = RequestContext(
            user_id=identity.user,
            user_name=identity.user,
            project_id=identity.project,
            project_name=identity.project,
            roles=list(identity.roles),
            request_id=environ.get("openstack.request_id"),
            global_request_id=environ.get("openstack.global_request_id"),
        )
        return app(environ, start_response)

    return middleware


def _unauthorized(start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Return a 401 in the form of keystone's middleware, so that clients meet one form only."""
    error: errors.Refused = {
        "code": 401,
        "title": "Unauthorized",
        "message": "The request you have made requires authentication.",
    }
    unidentified: errors.Unidentified = {"error": error}
    body = json.dumps(unidentified).encode()
    headers = [
        ("Content-Type", request.JSON),
        ("Content-Length", str(len(body))),
        ("WWW-Authenticate", 'Basic realm="zun", charset="UTF-8"'),
    ]
    start_response("401 Unauthorized", headers)
    return [body]


def _unchecked() -> exceptions.Unavailable:
    return exceptions.Unavailable(
        "The token cannot be checked with keystone. Try again; tell the operator if it stays so."
    )


def _settle_keystone(conf: cfg.ConfigOpts, options: Iterable[tuple[str, list[cfg.Opt]]]) -> None:
    """Register the ``options`` of keystone's middleware, with our defaults.

    Raises SystemExit if the configuration lacks the credentials for keystone: otherwise every request would be a 500.
    """
    for group, of_group in options:
        conf.register_opts(of_group, group=group)
    keystone = conf.keystone_authtoken
    if not keystone.auth_type and not keystone.auth_section:
        raise SystemExit(
            "[api] auth_strategy = keystone needs [keystone_authtoken] auth_type, mostly 'password', and with it "
            "auth_url, username and password. For an installation without keystone choose another auth_strategy."
        )
    if keystone.memcached_servers and importlib.util.find_spec("memcache") is None:
        raise SystemExit(
            "[keystone_authtoken] memcached_servers needs the package python-memcached, which is in this project's "
            "extra 'memcached'. Install it, or remove the option."
        )
    # Without any, a keystone that hangs holds a thread for each request, for ever. It is asked four times.
    conf.set_default("http_connect_timeout", KEYSTONE_SECONDS, group="keystone_authtoken")
    # A service token lets an expired token pass; without this any token is one.
    conf.set_default("service_token_roles_required", True, group="keystone_authtoken")


def _keystone(app: WsgiApp, conf: cfg.ConfigOpts) -> WsgiApp:
    """Wrap ``app`` in keystone's middleware, which checks the token and answers 401 itself."""
    import keystoneauth1.exceptions
    from keystonemiddleware import auth_token  # 14 MiB that only this strategy needs

    _settle_keystone(conf, auth_token.list_opts())

    def identified(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["zun.context"] = context = RequestContext.from_environ(environ)
        if not context.project_id:
            raise exceptions.Forbidden(
                "Containers belong to projects and this token is for none: authenticate with a project "
                "(OS_PROJECT_NAME or OS_PROJECT_ID)."
            )
        return app(environ, start_response)

    try:
        checked = auth_token.AuthProtocol(identified, {"oslo_config_config": conf})
    except keystoneauth1.exceptions.ClientException as exc:
        raise SystemExit(f"[keystone_authtoken]: {exc}") from exc

    def middleware(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            if status.startswith("503") and ("Content-Type", request.JSON) not in headers:
                raise _unchecked()  # its own page is HTML; the reason is in its own line of the log
            return start_response(status, headers, exc_info)

        try:
            return checked(environ, start)
        except keystoneauth1.exceptions.CatalogException as exc:
            LOG.error(
                "A token cannot be checked, as keystone's catalogue has no way back to keystone: %s. See "
                "[keystone_authtoken] interface, region_name and project_name",
                str(exc).rstrip("."),
            )
            raise _unchecked() from exc
        except keystoneauth1.exceptions.ConnectTimeout as exc:  # passes the library's middleware as well
            LOG.error("A token cannot be checked, as keystone does not answer: %s", exc)
            raise _unchecked() from exc

    return middleware
