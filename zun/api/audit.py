# SPDX-License-Identifier: Apache-2.0
"""CADF notifications of requests, by keystonemiddleware's audit filter.

The filter sees a request without its query, body and token, because it sends the query and a part of the token. It
sees the caller's identity for every ``[api] auth_strategy``, and a catalogue with this service alone.
"""

import io
import json
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg

from zun.api import client_address, errors, request
from zun.api.client_address import WsgiApp
from zun.common.context import RequestContext
from zun.messaging import cadf

MAP = pathlib.Path(__file__).with_name("api_audit_map.conf")
TARGET = "zun.target"
"""Key of environ: the uuid of the row that the request was about, or None. ``zun.api.controllers.root`` sets it."""

_REQUEST = "zun.audited"
_KEPT = ("REQUEST_METHOD", "PATH_INFO", "SERVER_NAME", "SERVER_PORT", "HTTP_HOST", "HTTP_USER_AGENT", "SERVER_PROTOCOL")


def wrap(app: WsgiApp, conf: cfg.ConfigOpts) -> WsgiApp:
    """Return ``app`` with notifications of the requests of identified callers, or ``app`` itself if they are off."""
    if not cadf.settle(conf):
        return app
    from keystonemiddleware import audit  # only with this option

    try:
        audited = audit.AuditMiddleware(
            _answering(app),
            oslo_config_config=conf,
            audit_map_file=conf.audit.audit_map_file or str(MAP),
            ignore_req_list=conf.audit.ignore_req_list,
        )
    except (OSError, audit.PycadfAuditApiConfigError) as exc:
        raise SystemExit(f"[audit] audit_map_file: {exc}") from exc

    def layer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if "zun.context" not in environ:  # the version documents, which need no identity
            return app(environ, start_response)
        answer: Iterable[bytes] = audited(_shown(environ), start_response)
        return answer

    return layer


def _shown(environ: dict[str, Any]) -> dict[str, Any]:
    """Return what the filter sees of a request."""
    context: RequestContext = environ["zun.context"]
    endpoint = {"id": "zun", "publicURL": request.base_url(environ)}
    catalogue = [{"type": "container", "name": "zun", "endpoints": [endpoint]}]
    identity = {
        "HTTP_X_USER_ID": context.user_id,
        "HTTP_X_USER_NAME": context.user_name,
        "HTTP_X_PROJECT_ID": context.project_id,
        "REMOTE_ADDR": client_address.of(environ),
    }
    return {
        **{name: value for name, value in environ.items() if name in _KEPT or name.startswith(("wsgi.", "openstack."))},
        **{name: value for name, value in identity.items() if value},
        "HTTP_X_SERVICE_CATALOG": json.dumps(catalogue),
        "SCRIPT_NAME": "",
        "QUERY_STRING": "",
        "wsgi.input": io.BytesIO(),
        _REQUEST: environ,
    }


def _answering(app: WsgiApp) -> WsgiApp:
    """Return ``app`` for the filter. An error of ``app`` is an answer, so that the notification has its status."""

    def layer(shown: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ = shown[_REQUEST]
        try:
            return app(environ, start_response)
        except Exception as exc:
            return errors.answer(exc, environ["REQUEST_METHOD"], start_response)
        finally:
            if environ.get(TARGET) and "cadf_event" in shown:
                shown["cadf_event"].target.id = environ[TARGET]

    return layer
