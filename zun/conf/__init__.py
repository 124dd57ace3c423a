# SPDX-License-Identifier: Apache-2.0
"""Configuration: one file a group, each with ``register_opts(conf)``.

Programs under ``zun.cmd`` register and read the options and pass values down; nothing else reads a global.
"""

from oslo_config import cfg

from zun.conf import api, capsule, compute, database, default, docker, network, quota, scheduler, websocket_proxy

GROUPS = (default, api, capsule, compute, database, docker, network, quota, scheduler, websocket_proxy)


def register_opts(conf: cfg.ConfigOpts) -> cfg.ConfigOpts:
    """Register every option of the project on ``conf`` and return it."""
    for group in GROUPS:
        group.register_opts(conf)
    return conf
