# SPDX-License-Identifier: Apache-2.0
"""The entry point of oslo-config-generator."""

import types

from oslo_config import cfg

from zun.conf import GROUPS, keystoneauth


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(group.GROUP, [*group.OPTS, *_of_library(group)]) for group in GROUPS]


def _of_library(group: types.ModuleType) -> list[cfg.Opt]:
    library: list[cfg.Opt] = getattr(group, "LIBRARY", [])
    return [*library, *keystoneauth.PASSWORD] if library else []
