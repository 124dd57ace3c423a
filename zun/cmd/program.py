# SPDX-License-Identifier: Apache-2.0
"""What every program does first and last: configuration, logging, signals."""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_log import log as oslo_log

from zun import conf as zun_conf
from zun import version
from zun.common import exceptions, rpc
from zun.db import migration, session

LOG = logging.getLogger(__name__)

# Their debug lines drown everything else, and one of them prints whole messages.
QUIET = (
    "amqp=WARN",
    "oslo.messaging=INFO",
    "oslo_messaging=INFO",
    "urllib3=WARN",
    "docker=WARN",
    "oslo_db.api=CRITICAL",  # a traceback of each error that outlasts its retries, which whoever gets it logs too
    "stevedore=INFO",
    "websockets=WARN",
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


def open_database(conf: cfg.ConfigOpts) -> None:
    """Connect, waiting for a server that is not up yet, and stop the program when there is no way in."""
    database = conf.database
    sizes = {"pool_size": database.max_pool_size, "max_overflow": database.max_overflow}
    try:
        session.configure(database.connection, **{name: value for name, value in sizes.items() if value is not None})
        with session.reader():
            pass
    except (db_exc.DBError, sa.exc.SQLAlchemyError, OSError, ValueError) as exc:
        reason = exceptions.first_line(exc)
        raise SystemExit(f"The database of [database] connection cannot be used: {reason}") from exc


def connect_database(conf: cfg.ConfigOpts) -> None:
    """``open_database``, and stop the program when the schema is not the one this code was written for."""
    open_database(conf)
    if not migration.is_current():
        raise SystemExit(
            f"The database has schema {migration.current() or 'none'}, this program needs {migration.head()}. "
            "Stop the services and run 'zun-db-manage upgrade'."
        )


def wait_for_signal() -> None:
    """Block until SIGTERM or SIGINT. A second one ends the program at once."""
    # The kernel may deliver a signal to any thread, and Python's handler runs in the main one only: waiting on a lock
    # it would sleep through the signal. The wake-up pipe is written by the C handler, in whichever thread that runs.
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: signal.signal(number, signal.SIG_DFL))
    os.read(wake, 1)
    LOG.info("Stopping")
