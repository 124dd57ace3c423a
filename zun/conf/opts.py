# SPDX-License-Identifier: Apache-2.0
"""The entry point of oslo-config-generator."""

from oslo_config import cfg

from zun.conf import GROUPS, placement


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    libraries = {placement.GROUP: [*placement.LIBRARY, *placement.PASSWORD]}
    return [(group.GROUP, [*group.OPTS, *libraries.get(group.GROUP, ())]) for group in GROUPS]
