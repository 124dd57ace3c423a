# SPDX-License-Identifier: Apache-2.0
"""The login of the page: who somebody is, and with keystone a token for it.

With keystone this service asks for the token with the name and the password, or the token, that the browser sent. The
page keeps the token in memory, and the service keeps nothing. doc/source/contributor/decisions says why the browser
does not ask keystone itself.
"""

import logging
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from keystoneauth1 import access as ks_access
from keystoneauth1 import exceptions as ks_exc
from keystoneauth1 import loading, plugin
from keystoneauth1 import session as ks_session
from keystoneauth1.identity import v3
from oslo_config import cfg

from zun.api import basic, errors, limits, transfers
from zun.common import exceptions
from zun.common.context import RequestContext

LOG = logging.getLogger(__name__)

GROUP = "keystone_authtoken"
_SHOWN = 64  # characters of a name in the log

Given = Mapping[str, Any]


class Refused(errors.RoutingError):
    """The name, the password, the token or the project is not right. The answer does not say which."""

    code = 401

    def __init__(self, message: str) -> None:
        # HTTP requires the header. A scheme that no browser knows opens no window for a password.
        super().__init__(message, headers=[("WWW-Authenticate", "Zun-Login")])


class Named(TypedDict):
    id: str
    name: str
    domain_id: NotRequired[str | None]


class SignedIn(TypedDict):
    """The answer to a login. ``token`` is null where the API takes none. Without ``project`` the page must choose one
    of ``projects`` and log in again, with the token and ``project_id``.
    """

    token: str | None
    expires_at: str | None
    user: Named
    project: Named | None
    roles: list[str]
    projects: list[Named]


def known(context: RequestContext) -> SignedIn:
    """Return the answer for somebody whom the API's own middleware has identified."""
    user, project = context.user_id or "", context.project_id or ""
    return {
        "token": None,
        "expires_at": None,
        "user": {"id": user, "name": context.user_name or user},
        "project": {"id": project, "name": context.project_name or project},
        "roles": sorted(context.roles),
        "projects": [],
    }


class Keystone:
    """Logs people in at the keystone of group ``[keystone_authtoken]``."""

    def __init__(self, session: ks_session.Session, service: Any, at_once: int) -> None:
        """``service`` is the plugin of keystoneauth with which the service itself logs in; it knows where keystone is.
        ``at_once`` is the number of logins that may wait for keystone, so that they leave threads to the API.
        """
        self._waiting = transfers.logins(at_once)
        self._session = session
        self._service = service
        self._tries = basic.Tries()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> "Keystone":
        """Raises Misconfigured. The options of keystone's middleware must be registered."""
        options = conf[GROUP]
        try:
            service: Any = loading.load_auth_from_conf_options(conf, GROUP)
        except (ks_exc.AuthPluginException, cfg.Error) as exc:
            raise exceptions.Misconfigured(f"[{GROUP}]: {exc}") from exc
        if not getattr(service, "auth_url", None):
            raise exceptions.Misconfigured(f"[ui] enabled needs [{GROUP}] auth_url: people log in there.")
        pair = (options.certfile, options.keyfile)
        session = ks_session.Session(
            verify=False if options.insecure else options.cafile or True,
            cert=pair if all(pair) else options.certfile,
            timeout=options.http_connect_timeout,
        )
        return cls(session, service, conf.api.waiting_requests)

    def sign_in(self, given: Given, address: str) -> SignedIn:
        """Return the answer to a login with ``given``. Raises Refused, TooManyTries, TooManyLogins and Unavailable.

        A project that nobody names is the user's only one; with several the answer has no project.
        """
        with self._waiting.one(""):
            return self._sign_in(given, address)

    def _sign_in(self, given: Given, address: str) -> SignedIn:
        scope = _scope(given)
        try:
            if "token" in given:
                held = self._of_token(given["token"], scope)
            else:
                held = self._of_password(given, scope, address)
            token = str(held.auth_token)
            projects = [] if held.project_id else self._projects(token)
            if len(projects) == 1:
                held = self._rescoped(token, {"project_id": projects[0]["id"]})
        except (ks_exc.Unauthorized, ks_exc.NotFound) as exc:
            raise Refused(_REFUSED) from exc
        except ks_exc.MissingAuthMethods as exc:
            raise Refused(
                "Keystone asks this user for one more proof besides the password. Log in with a token instead: "
                "openstack token issue -c id -f value."
            ) from exc
        except ks_exc.HttpError as exc:
            status = exc.http_status or 500
            if status >= 500:
                raise self._unavailable(exc) from exc
            raise Refused(_REFUSED) from exc
        except (ks_exc.ClientException, LookupError, TypeError, ValueError) as exc:  # also an answer of another form
            raise self._unavailable(exc) from exc
        return _signed_in(held, projects if not held.project_id else [])

    def _unavailable(self, exc: Exception) -> exceptions.Unavailable:
        kind, where = type(exc).__name__, self._service.auth_url
        LOG.error("Nobody can log in, as keystone at %s gives no usable answer: %s", where, kind)
        return exceptions.Unavailable("Keystone does not answer. Try again; tell the operator if it stays so.")

    def _of_password(self, given: Given, scope: Given, address: str) -> ks_access.AccessInfo:
        user, domain = given["user"], given["user_domain"]
        name = f"{user}\0{domain}"
        if wait := self._tries.wait(name, address):
            raise basic.TooManyTries(wait)
        auth = v3.Password(
            self._url(),
            username=user,
            user_domain_name=domain,
            password=given["password"],
            include_catalog=False,
            **scope,
        )
        try:
            found = auth.get_access(self._session)
        except ks_exc.Unauthorized:
            level = logging.WARNING if self._tries.failed(name, address) == limits.WRONG_PASSWORDS else logging.INFO
            LOG.log(level, "Refused the login of user %s of domain %s from %s", user[:_SHOWN], domain[:_SHOWN], address)
            raise
        self._tries.passed(name, address)
        return found

    def _of_token(self, token: str, scope: Given) -> ks_access.AccessInfo:
        """Return what ``token`` permits: for the project of ``scope``, if there is one, with another token."""
        if "unscoped" not in scope:
            return self._rescoped(token, scope)
        response = self._get("/auth/tokens", token, {"X-Subject-Token": token})
        return ks_access.create(resp=response, auth_token=token)

    def _rescoped(self, token: str, scope: Given) -> ks_access.AccessInfo:
        return v3.Token(self._url(), token, include_catalog=False, reauthenticate=False, **scope).get_access(
            self._session
        )

    def _projects(self, token: str) -> list[Named]:
        """Return the projects in which the owner of ``token`` has a role, by name."""
        found = self._get("/auth/projects", token).json()["projects"]
        own: list[Named] = [
            {"id": each["id"], "name": each["name"], "domain_id": each["domain_id"]}
            for each in found
            if each.get("enabled", True)
        ]
        return sorted(own, key=lambda project: (project["name"], project["id"]))

    def _get(self, path: str, token: str, headers: Mapping[str, str] | None = None) -> Any:
        given = {"X-Auth-Token": token, **(headers or {})}
        return self._session.get(f"{self._url()}{path}", authenticated=False, headers=given, log=False)

    def _url(self) -> str:
        """Return the URL of keystone's API 3. The session remembers what keystone told about its versions."""
        found = self._service.get_endpoint(self._session, interface=plugin.AUTH_INTERFACE, version=(3, 0))
        return str(found or self._service.auth_url).rstrip("/")


_REFUSED = (
    "The login was refused: the user, the password or the token is wrong or has expired, or the user has no role in "
    "the project."
)


def complete(given: Given, default_domain: str) -> Given:
    """Return the arguments of a login at keystone with their defaults. Raises SchemaValidationError.

    A password needs a name, and a token comes without a password.
    """
    with_domains = {"user_domain": default_domain, "project_domain": default_domain, **given}
    if "token" in given:
        if "password" in given:
            raise exceptions.SchemaValidationError(detail="token: give it or a password, not both.")
    elif "user" not in given or "password" not in given:
        raise exceptions.SchemaValidationError(detail="user, password: give both, or a token.")
    if "project" in given and "project_id" in given:
        raise exceptions.SchemaValidationError(detail="project: give its name, or project_id, not both.")
    return with_domains


def _scope(given: Given) -> dict[str, Any]:
    if "project_id" in given:
        return {"project_id": given["project_id"]}
    if "project" in given:
        return {"project_name": given["project"], "project_domain_name": given["project_domain"]}
    return {"unscoped": True}


def _signed_in(held: Any, projects: list[Named]) -> SignedIn:
    project: Named | None = None
    if held.project_id:
        project = {"id": held.project_id, "name": held.project_name, "domain_id": held.project_domain_id}
    return {
        "token": held.auth_token,
        "expires_at": held.expires.isoformat(),
        "user": {"id": held.user_id, "name": held.username, "domain_id": held.user_domain_id},
        "project": project,
        "roles": sorted(held.role_names or ()),
        "projects": projects,
    }
