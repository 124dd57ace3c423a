# SPDX-License-Identifier: Apache-2.0
"""The start and end of every program: configuration, logging, database, signals."""

import functools
import gc
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
from zun.cmd import report
from zun.common import exceptions, log_lines, outages
from zun.conf import misspelt, values
from zun.db import migration, session
from zun.messaging import rpc, waiting

LOG = logging.getLogger(__name__)

# Log levels of libraries with too many lines. One of the libraries prints whole messages at debug level.
QUIET = (
    "keystonemiddleware._common.config=ERROR",  # does not know the audit filter's own map
    "amqp=ERROR",  # warns of frames during its close, at each stop of a service
    "oslo.messaging=INFO",
    "oslo_messaging=INFO",
    "urllib3=ERROR",  # warns of each dropped connection, dozens after a restart of Docker
    "docker=WARN",
    "oslo_middleware.basic_auth=WARN",  # logs each wrong password; this service does so with the address
    "oslo_db.api=CRITICAL",  # logs a traceback after the last retry, and the caller logs the error too
    "stevedore=INFO",
    "websockets=WARN",
)


#: New objects (about a hundred decisions) before the garbage collector looks at its first generation, runs of the first
#: generation before one of the second, and runs of the second before one of the third.
SELDOM = (5_000, 2, 50)
#: The programs that read options of the API.
WITH_API = ("zun-api", "zun-allinone", "zun-status")

#: Errors of the configuration or of another service that stop a program at its start.
_NOT_OURS = (
    cfg.Error,
    exceptions.Misconfigured,
    exceptions.Unavailable,
    oslo_messaging.DriverLoadFailure,
    oslo_messaging.InvalidTransportURL,
)


def without_traceback(main: Callable[[], None]) -> Callable[[], None]:
    """Wrap ``main`` so that a wrong configuration or an unreachable service ends the program with one line."""

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
            raise SystemExit(f"Start failed: a service behind this one is down: {reason}. Start it again.") from exc

    return run


def configure(program: str, argv: Sequence[str] | None = None, **defaults: Any) -> cfg.ConfigOpts:
    """Read the configuration of ``program``. ``defaults`` replace defaults, for example ``api__port=9517``.

    The global CONF is used, because oslo.messaging reads its own options from it.
    """
    conf = cfg.CONF
    oslo_log.register_options(conf)
    waiting.install()
    rpc.register_opts(conf)
    zun_conf.register_opts(conf)
    for name, value in defaults.items():
        group, _, option = name.rpartition("__")
        conf.set_default(option, value, group=group or None)
    oslo_log.set_defaults(default_log_levels=[*oslo_log.get_default_log_levels(), *QUIET])
    conf(list(sys.argv[1:] if argv is None else argv), project="zun", prog=program, version=version.release())
    values.take_repeated(conf)
    values.check(conf)
    oslo_log.setup(conf, "zun", version.release())
    log_lines.install()
    report.install(conf, program)
    for text in misspelt.misspelt(conf, api=program in WITH_API):
        LOG.warning("%s", text)
    return conf


def collect_garbage_seldom() -> None:
    """Make the garbage collector run less often, for a program with a large table of hosts.

    The scans of the table took a fifth of the time of all decisions, and found nothing: the table has no reference
    cycles, so its objects are freed by reference counting.
    """
    gc.set_threshold(*SELDOM)


def make_state_folder(path: str) -> None:
    """Make the folder of ``state_path``, closed to other users. Warn of one that is there already and is open."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.stat(path).st_mode & 0o077:
        LOG.warning(
            "[DEFAULT] state_path = %s can be entered by other users of this machine. The files in it are closed to "
            "them; close the folder too: chmod 700 %s",
            path,
            path,
        )


def open_database(conf: cfg.ConfigOpts) -> None:
    """Connect to the database, waiting for a server that is not up yet. Stop the program if it cannot connect."""
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
    """Connect to the database, and stop the program if its schema is older than this code needs.

    A newer schema belongs to an upgrade under way. The services of the previous release work with it.
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


def wait_for_signal(ready: str = "", *values: object) -> None:
    """Block until SIGTERM or SIGINT. A second signal ends the program at once.

    Log ``ready`` when a signal would stop the program in order: whoever reads that may send one at once.
    """
    # The kernel may deliver a signal to any thread, but Python's handler runs only in the main thread, which would not
    # wake while it waits for a lock. The C handler writes to the wake-up pipe in every thread.
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: signal.signal(number, signal.SIG_DFL))
    if ready:
        LOG.info(ready, *values)
    while os.read(wake, 1)[0] not in (signal.SIGTERM, signal.SIGINT):
        pass  # another signal, as the one for a report
    LOG.info("Stopping")
    waiting.leave()
    # Both log tracebacks of threads whose broker is away. ``waiting`` has told so in one line.
    for name in ("oslo_utils.excutils", "oslo_messaging._drivers.amqpdriver"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
