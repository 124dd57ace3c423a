# SPDX-License-Identifier: Apache-2.0
"""The connection to another OpenStack service, as its group of the configuration describes it."""

from typing import Any

import requests
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import exceptions as ks_exc
from keystoneauth1 import loading
from oslo_config import cfg

from zun.common import exceptions


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
    unavailable: type[exceptions.Unavailable],
    *,
    token: str | None = None,
    **options: Any,
) -> tuple[requests.Response, Any]:
    """Return the answer to a request and its JSON, which is ``{}`` without a body and None if it is no JSON.

    With ``token``, its user asks, and otherwise the user of the adapter. Raises ``unavailable`` if no answer comes.
    """
    headers = dict(options.pop("headers", None) or {})
    if token:
        headers["X-Auth-Token"] = token
        options["authenticated"] = False
    try:
        found: requests.Response = adapter.request(url, method, raise_exc=False, headers=headers, **options)
    except ks_exc.ClientException as exc:
        raise unavailable(reason=exceptions.first_line(exc)) from exc
    try:
        return found, found.json() if found.content else {}
    except ValueError:
        return found, None
