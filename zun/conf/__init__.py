# SPDX-License-Identifier: Apache-2.0
"""The configuration options: one module for each group, with its name ``GROUP`` and its options ``OPTS``.

``LIBRARY`` of a module, if it has one, are options of a library in the same group.

Programs under ``zun.cmd`` register and read the options and pass values down; nothing else reads a global.
"""

import types

from oslo_config import cfg

from zun.conf import (
    api,
    audit,
    capsule,
    cinder,
    compute,
    conductor,
    database,
    default,
    devices,
    docker,
    glance,
    metrics,
    network,
    neutron,
    placement,
    podman,
    quota,
    scheduler,
    ssl_files,
    ui,
    upgrade_levels,
    websocket_proxy,
)

GROUPS = (
    default,
    api,
    audit,
    capsule,
    cinder,
    compute,
    conductor,
    database,
    devices,
    docker,
    glance,
    metrics,
    network,
    neutron,
    placement,
    podman,
    quota,
    scheduler,
    ssl_files,
    ui,
    upgrade_levels,
    websocket_proxy,
)


def options_of(group: types.ModuleType) -> list[cfg.Opt]:
    """Return the options of one of ``GROUPS``, those of its library last."""
    return [*group.OPTS, *getattr(group, "LIBRARY", ())]


def register_opts(conf: cfg.ConfigOpts) -> cfg.ConfigOpts:
    """Register every option of the project on ``conf`` and return it."""
    for group in GROUPS:
        conf.register_opts(options_of(group), group=None if group.GROUP == "DEFAULT" else group.GROUP)
    return conf
