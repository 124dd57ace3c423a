# SPDX-License-Identifier: Apache-2.0
"""What every program does first and last: configuration, logging, signals."""

import functools
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import amqp.exceptions
import oslo_messaging
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_log import log as oslo_log

from zun import conf as zun_conf
from zun import version
from zun.common import exceptions, leaving, outages, rpc
from zun.conf import misspelt
from zun.db import migration, session

LOG = logging.getLogger(__name__)

# Their debug lines drown everything else, and one of them prints whole messages.
QUIET = (
    "amqp=ERROR",  # warns of whatever comes while it closes: at each stop of a service
    "oslo.messaging=INFO",
    "oslo_messaging=INFO",
    "urllib3=ERROR",  # warns of each connection that it does not keep: after a restart of Docker, of dozens
    "docker=WARN",
    "oslo_middleware.basic_auth=WARN",  # tells of each wrong password, as we do with the address
    "oslo_db.api=CRITICAL",  # a traceback of each error that outlasts its retries, which whoever gets it logs too
    "stevedore=INFO",
    "websockets=WARN",
)


#: What stops a program at its start and is not to be mended in its code.
_NOT_OURS = (
    cfg.Error,
    exceptions.Misconfigured,
    exceptions.Unavailable,
    oslo_messaging.DriverLoadFailure,
    oslo_messaging.InvalidTransportURL,
)


def without_traceback(main: Callable[[], None]) -> Callable[[], None]:
    """``main``, ending with one line where the configuration is wrong or what the program needs does not answer."""

    @functools.wraps(main)
    def run() -> None:
        try:
            main()
        except (amqp.exceptions.AccessRefused, amqp.exceptions.NotAllowed) as exc:
            LOG.debug("Cannot go on", exc_info=True)
            raise SystemExit(
                f"The message queue refuses this service: {exc.reply_text.rstrip('.')}. See user, password and vhost "
                "of [DEFAULT] transport_url; 'rabbitmqctl list_vhosts' and 'rabbitmqctl list_permissions -p VHOST' "
                "tell what there is."
            ) from exc
        except _NOT_OURS as exc:
            LOG.debug("Cannot go on", exc_info=True)
            raise SystemExit(str(exc)) from exc
        except outages.OUTAGES as exc:
            LOG.debug("Cannot go on", exc_info=True)
            reason = exceptions.first_line(exc)
            raise SystemExit(f"What this service needs went away while it started: {reason}. Start it again.") from exc

    return run


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
    for text in misspelt.misspelt(conf):
        LOG.warning("%s", text)
    return conf


def open_database(conf: cfg.ConfigOpts) -> None:
    """Connect, waiting for a server that is not up yet, and stop the program when there is no way in."""
    database = conf.database
    sizes = {"pool_size": database.max_pool_size, "max_overflow": database.max_overflow}
    try:
        session.configure(database.connection, **{name: value for name, value in sizes.items() if value is not None})
        with session.reader():
            pass
    except (db_exc.DBError, sa.exc.SQLAlchemyError, OSError, ValueError, ModuleNotFoundError) as exc:
        reason = exceptions.first_line(exc)
        if isinstance(exc, ModuleNotFoundError):
            reason += ". Install the database's driver; that of PostgreSQL is in this project's extra 'postgresql'"
        raise SystemExit(f"The database of [database] connection cannot be used: {reason}") from exc


def connect_database(conf: cfg.ConfigOpts) -> None:
    """``open_database``, and stop the program when the schema is older than the one this code was written for.

    A newer one is that of an upgrade under way: the services of the release before work with it, also after a restart.
    """
    open_database(conf)
    found, ours = migration.current(), migration.head()
    database = session.engine().url.render_as_string(hide_password=True)
    if migration.is_behind():
        raise SystemExit(
            f"The database {database} has schema {found or 'none'}, this program needs {ours}. Run this release's "
            "'zun-db-manage upgrade'; if it is another database that was meant, see [database] connection."
        )
    if found != ours:
        LOG.warning("The database has schema %s, newer than %s of this program: upgrade the program", found, ours)


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
    leaving.leave()
