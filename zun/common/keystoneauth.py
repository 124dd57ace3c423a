# SPDX-License-Identifier: Apache-2.0
"""The connection to another OpenStack service, as its group of the configuration describes it."""

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
