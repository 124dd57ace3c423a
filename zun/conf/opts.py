# SPDX-License-Identifier: Apache-2.0
"""For oslo-config-generator."""

from oslo_config import cfg

from zun.conf import GROUPS


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(group.GROUP, list(group.OPTS)) for group in GROUPS if group.GROUP != "database"]
