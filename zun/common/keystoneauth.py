# SPDX-License-Identifier: Apache-2.0
"""The connection to another OpenStack service, as its group of the configuration describes it."""

import time
from collections.abc import Callable
from typing import Any

import requests
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import exceptions as ks_exc
from keystoneauth1 import loading
from oslo_config import cfg

from zun.common import exceptions, metrics


def adapter(conf: cfg.ConfigOpts, group: str, needed_by: str) -> ks_adapter.Adapter:
    """Return the adapter of ``group``, whose options ``zun.conf.keystoneauth`` makes. Raises Misconfigured.

    ``needed_by`` is the setting because of which the service is used, for the error without an auth_type.
    """
    try:
        auth = loading.load_auth_from_conf_options(conf, group)
        session = loading.load_session_from_conf_options(conf, group, auth=auth)
    except (ks_exc.AuthPluginException, cfg.Error) as exc:
        raise exceptions.Misconfigured(f"[{group}]: {exc}") from exc
    if auth is None:
        raise exceptions.Misconfigured(
            f"{needed_by} needs [{group}] auth_type, mostly 'password', and with it auth_url, username, password, "
            f"project_name and the domains; see the page on {group.capitalize()}."
        )
    return loading.load_adapter_from_conf_options(conf, group, session=session, auth=auth)


def answer(
    adapter: ks_adapter.Adapter,
    method: str,
    url: str,
    body: Any = None,
    *,
    group: str,
    request: str,
    unavailable: type[exceptions.Unavailable],
    refusal: Callable[[int, Any, str], exceptions.ZunError],
    token: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return the JSON object that answers a request with the JSON ``body``, empty if the answer has no body.

    With ``token``, its user asks, and otherwise the user of the adapter. ``request`` names the request in errors.
    Raises ``unavailable`` if no usable answer comes, and what ``refusal`` makes of the status, the JSON (None if it is
    no JSON) and ``request`` if the answer is no success.
    """
    headers = dict(options.pop("headers", None) or {})
    if token:
        headers["X-Auth-Token"] = token
        options["authenticated"] = False
    if body is not None:
        options["json"] = body
    began, outcome = time.monotonic(), "unavailable"
    try:
        response: requests.Response = adapter.request(url, method, raise_exc=False, headers=headers, **options)
        outcome = "answered" if response.ok else "failed" if response.status_code >= 500 else "refused"
    except ks_exc.ClientException as exc:
        raise unavailable(reason=exceptions.first_line(exc)) from exc
    finally:
        metrics.SERVICE_SECONDS.labels(group, outcome).observe(time.monotonic() - began)
    try:
        found = response.json() if response.content else {}
    except ValueError:
        found = None
    if not response.ok:
        raise refusal(response.status_code, found, request)
    if not isinstance(found, dict):
        raise unavailable(
            reason=f"its answer to {request} is no JSON object. Is [{group}] endpoint_override another service?"
        )
    return found
