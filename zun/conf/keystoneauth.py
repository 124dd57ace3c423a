# SPDX-License-Identifier: Apache-2.0
"""Options of keystoneauth for the group of another OpenStack service: where it is, who we are, how long it may take."""

from keystoneauth1 import loading
from oslo_config import cfg

#: Options of the usual auth_type. keystoneauth registers those of the configured one when it is used; some are required
#: there.
PASSWORD: list[cfg.Opt] = loading.get_auth_plugin_conf_options("password")


def options(service_type: str, seconds: int, *, retries: int | None = None) -> list[cfg.Opt]:
    """Return the options of a service, with defaults for its type and the ``seconds`` that it may take to answer.

    ``retries`` is the default of ``connect_retries`` and ``status_code_retries``; None leaves both off.
    """
    session: list[cfg.Opt] = loading.get_session_conf_options()
    cfg.set_defaults(session, timeout=seconds)
    adapter: list[cfg.Opt] = loading.get_adapter_conf_options(include_deprecated=False)
    cfg.set_defaults(adapter, service_type=service_type)
    if retries is not None:
        cfg.set_defaults(adapter, connect_retries=retries, status_code_retries=retries)
    return [*loading.get_auth_common_conf_options(), *session, *adapter]
