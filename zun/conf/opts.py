# SPDX-License-Identifier: Apache-2.0
"""The entry point of oslo-config-generator."""

import types

from oslo_config import cfg

from zun.conf import GROUPS, keystoneauth, options_of


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(group.GROUP, [*options_of(group), *_of_login(group)]) for group in GROUPS]


def _of_login(group: types.ModuleType) -> list[cfg.Opt]:
    return keystoneauth.PASSWORD if hasattr(group, "LIBRARY") else []
