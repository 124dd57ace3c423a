# SPDX-License-Identifier: Apache-2.0
"""For oslo-config-generator."""

from oslo_config import cfg
from oslo_db import options

from zun.conf import GROUPS, database


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(group.GROUP, list(group.OPTS)) for group in GROUPS if group.GROUP != "database"]


def set_defaults() -> None:
    """Have the sample tell our defaults of options that libraries list."""
    cfg.set_defaults(options.database_opts, connection=database.CONNECTION)
