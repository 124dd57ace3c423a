# SPDX-License-Identifier: Apache-2.0
"""The API as a WSGI application: ``build`` puts the parts together, ``Edge`` is what the server calls.

A request passes the edge (one spelling of the path, version, Accept, request id, errors), the identity
middleware and pecan, and reaches one handler of ``zun.api.controllers.v1``.
"""

import io
import re
from collections.abc import Callable, Iterable
from typing import Any

import pecan
from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_middleware import cors, http_proxy_to_wsgi

from zun import policies
from zun.api import (
    access_log,
    audit,
    auth,
    client_address,
    errors,
    health,
    login,
    measured,
    microversion,
    openapi,
    pages,
    policy,
    request,
    routes,
    transfers,
)
from zun.api.auth import WsgiApp
from zun.api.cinder import CinderVolumes, NoCinder
from zun.api.controllers import root
from zun.api.controllers.v1 import NOUNS, Dependencies
from zun.api.networks import Bridges
from zun.api.neutron import NeutronNetworks
from zun.api.settings import Settings
from zun.cinder.client import CinderClient
from zun.image import glance
from zun.messaging.compute_api import ComputeAPI
from zun.messaging.scheduler_api import SchedulerAPI
from zun.neutron.client import NeutronClient

_REQUEST_ID = re.compile("req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def build(conf: cfg.ConfigOpts, *, scheduler_api: SchedulerAPI, compute_api: ComputeAPI) -> WsgiApp:
    """The application. ``conf`` has the options of ``zun.conf``."""
    settings = Settings.from_conf(conf)
    dependencies = Dependencies(
        scheduler_api=scheduler_api,
        compute_api=compute_api,
        settings=settings,
        networks=NeutronNetworks(NeutronClient.from_conf(conf)) if settings.neutron else Bridges(),
        images=glance.configured(conf),
        volumes=_volumes(conf),
    )
    table = [route for noun in NOUNS for route in noun(dependencies).routes()]
    router = routes.Router(table)
    controller = root.Root(
        router,
        policy.Policy(policy.enforcer(conf)),
        lambda version: openapi.document(table, policies.list_rules(), version, conf.api.auth_strategy),
        transfers.waits(settings.waiting_requests),
        auth.identity_headers(conf),
    )
    app = pecan.Pecan(
        controller,
        use_context_locals=False,
        force_canonical=False,
        guess_content_type_from_ext=False,
        default_renderer="json",
    )
    identify = auth.strategy(conf)
    edge = Edge(auth.wrap(audit.wrap(unread(app), conf), identify), health.build(conf))
    served = _behind_others(_with_pages(edge, conf, identify), conf)
    measured_app = measured.Measured(served, router.nouns)
    return access_log.AccessLog(measured_app) if conf.api.access_log else measured_app


def _volumes(conf: cfg.ConfigOpts) -> CinderVolumes | NoCinder:
    options = conf.cinder
    if not options.enabled:
        return NoCinder()
    return CinderVolumes(CinderClient.from_conf(conf), cross_az_attach=options.cross_az_attach)


def _with_pages(app: WsgiApp, conf: cfg.ConfigOpts, identify: Callable[[WsgiApp], WsgiApp]) -> WsgiApp:
    """Return ``app`` with the page for people in front, if the operator asked for the page."""
    if not conf.ui.enabled:
        return app
    keystone = login.Keystone.from_conf(conf) if conf.api.auth_strategy == "keystone" else None
    return pages.Pages(app, conf, identify, keystone)


def _behind_others(app: WsgiApp, conf: cfg.ConfigOpts) -> WsgiApp:
    """``app`` behind what oslo.middleware has for proxies and browsers, each only if the operator asked for it."""
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")
    conf.register_opts(cors.OPTS, group="cors")
    if conf.oslo_middleware.enable_proxy_headers_parsing:
        app = http_proxy_to_wsgi.HTTPProxyToWSGI(client_address.trust_proxy(app), conf)
    if conf.cors.allowed_origin:
        names = [microversion.HEADER, *microversion.RANGE_HEADERS, "X-OpenStack-Request-ID"]
        conf.set_default("allow_headers", ["X-Auth-Token", "If-None-Match", *names], group="cors")
        conf.set_default("expose_headers", ["ETag", *names], group="cors")
        conf.set_default("allow_methods", ["GET", "POST", "PUT", "PATCH", "DELETE"], group="cors")
        app = cors.CORS(app, conf)
    return app


def unread(app: WsgiApp) -> WsgiApp:
    """Return a layer that hides the query and the body of a request from ``app``, and leaves them in ``zun.request``.

    pecan would read a whole body into memory to look for arguments of the controller.
    """
    nothing = {"QUERY_STRING": "", "CONTENT_TYPE": "text/plain", "CONTENT_LENGTH": "0"}

    def layer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        hidden = {**environ, **nothing, "wsgi.input": io.BytesIO(), "zun.request": environ}
        return app(hidden, start_response)

    return layer


class Edge:
    """Outermost layer of ours. Whatever is raised behind it becomes a response here."""

    def __init__(self, app: WsgiApp, healthcheck_app: WsgiApp) -> None:
        self._app = app
        self._healthcheck = healthcheck_app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == "/healthcheck":
            return self._healthcheck(environ, start_response)
        request_id = oslo_context.generate_request_id()
        environ["openstack.request_id"] = request_id
        if _REQUEST_ID.fullmatch(environ.get("HTTP_X_OPENSTACK_REQUEST_ID", "")):
            # The caller's own id, for the logs.
            environ["openstack.global_request_id"] = environ["HTTP_X_OPENSTACK_REQUEST_ID"]
        added = [("x-openstack-request-id", request_id)]

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            return start_response(status, _joined([*headers, *added]), exc_info)

        try:
            raw_path = environ.get("PATH_INFO", "")
            if not request.is_root(raw_path):
                environ["zun.version"] = _negotiate(environ, added)
            request.check_length(environ)
            request.check_header_names(environ)
            environ["zun.path"] = path = request.canonical_path(raw_path)
            if not request.accepts_json(environ.get("HTTP_ACCEPT")):
                raise errors.VersionNotAcceptable(
                    "The Accept header excludes application/json, the only type there is."
                )
            environ["HTTP_ACCEPT"] = "*/*"  # asked and answered: spares the layers behind the same question
            environ["PATH_INFO"] = "/" + "/".join(path).encode().decode("latin-1")
            return self._app(environ, start)
        except Exception as exc:
            return errors.answer(exc, environ["REQUEST_METHOD"], start)


def _joined(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return ``headers`` with one ``vary`` for all of theirs: some clients and caches read only the first."""
    varies = [value for name, value in headers if name.lower() == "vary"]
    if len(varies) < 2:
        return headers
    return [*(header for header in headers if header[0].lower() != "vary"), ("vary", ", ".join(reversed(varies)))]


def _negotiate(environ: dict[str, Any], added: list[tuple[str, str]]) -> microversion.Version:
    """The version of the request; ``added`` grows by the headers that name it, out of range or not."""
    header = environ.get("HTTP_OPENSTACK_API_VERSION")
    name = microversion.service(header)
    try:
        version = microversion.negotiate(header)
    except microversion.UnsupportedVersion as exc:
        added += microversion.response_headers(exc.version, name)
        raise
    added += microversion.response_headers(version, name)
    return version
