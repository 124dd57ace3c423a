# SPDX-License-Identifier: Apache-2.0
"""What every program does first and last: configuration, logging, signals."""

import logging
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as oslo_log

from zun import conf as zun_conf
from zun import version
from zun.common import rpc
from zun.db import migration, session

LOG = logging.getLogger(__name__)

# Their debug lines drown everything else, and one of them prints whole messages.
QUIET = (
    "amqp=WARN",
    "oslo.messaging=INFO",
    "oslo_messaging=INFO",
    "urllib3=WARN",
    "docker=WARN",
    "stevedore=INFO",
)


def configure(program: str, argv: Sequence[str] | None = None, **defaults: Any) -> cfg.ConfigOpts:
    """Read the configuration of ``program``. ``defaults`` replace defaults, as ``group__option=value``.

    The global CONF is used because oslo.messaging reads options of its own from it.
    """
    conf = cfg.CONF
    oslo_log.register_options(conf)
    rpc.register_opts(conf)
    zun_conf.register_opts(conf)
    for name, value in defaults.items():
        group, _, option = name.rpartition("__")
        conf.set_default(option, value, group=group or None)
    oslo_log.set_defaults(default_log_levels=[*oslo_log.get_default_log_levels(), *QUIET])
    conf(list(sys.argv[1:] if argv is None else argv), project="zun", prog=program, version=version.release())
    oslo_log.setup(conf, "zun", version.release())
    return conf


def connect_database(conf: cfg.ConfigOpts) -> None:
    """Connect, and stop the program when the schema is not the one this code was written for."""
    database = conf.database
    sizes = {"max_pool_size": database.max_pool_size, "max_overflow": database.max_overflow}
    session.configure(database.connection, **{name: value for name, value in sizes.items() if value is not None})
    if not migration.is_current():
        raise SystemExit(
            f"The database has schema {migration.current() or 'none'}, this program needs {migration.head()}. "
            "Stop the services and run 'zun-db-manage upgrade'."
        )


def wait_for_signal() -> None:
    """Block until SIGTERM or SIGINT. A second one ends the program at once."""
    asked = threading.Event()

    def ask(number: int, _frame: Any) -> None:
        if asked.is_set():
            sys.exit(128 + number)
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    asked.wait()
    LOG.info("Stopping")
