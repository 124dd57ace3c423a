# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg
from oslo_db import options

GROUP = "database"
OPTS: list[cfg.Opt] = []  # oslo.db's own; listed by its own entry point
CONNECTION = "sqlite:///$state_path/zun.sqlite"


def register_opts(conf: cfg.ConfigOpts) -> None:
    options.set_defaults(conf, connection=CONNECTION)
