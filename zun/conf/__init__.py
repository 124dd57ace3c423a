# SPDX-License-Identifier: Apache-2.0
"""The configuration options: one module for each group, with ``OPTS`` and ``register_opts(conf)``.

Programs under ``zun.cmd`` register and read the options and pass values down; nothing else reads a global.
"""

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


def register_opts(conf: cfg.ConfigOpts) -> cfg.ConfigOpts:
    """Register every option of the project on ``conf`` and return it."""
    for group in GROUPS:
        group.register_opts(conf)
    return conf
