# SPDX-License-Identifier: Apache-2.0
"""Connections to the database: embedded SQLite, MariaDB or PostgreSQL, with the same queries for all of them.

A process calls ``configure(url)`` once. Then ``reader()`` gives a connection for queries, and ``writer()`` gives a
connection in a transaction.

Database servers receive as few statements as possible: one for a query, and a change plus its commit for a
transaction. Three settings serve this aim. oslo.db's engines do not have them; only oslo.db's errors are used:

- Readers are in autocommit mode and have their own pool.
- A connection is not rolled back when it returns to its pool. ``reader()`` and ``writer()`` are the only ways to a
  connection and leave no transaction open.
- Only a connection that was idle for SERVER_IDLE_SECONDS is tested before it is used.

SQLite connections stay open. oslo.db would open one for each transaction, and in WAL mode each last close is a
checkpoint: tens of commits a second instead of hundreds. Writers begin with BEGIN IMMEDIATE. With a plain BEGIN, a
transaction that reads first fails with "database is locked" if another transaction wrote before its first write.
"""

import contextlib
import contextvars
import datetime
import functools
import itertools
import logging
import os
import pathlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import orjson
import sqlalchemy as sa
from oslo_db import api as oslo_db_api
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions

LOG = logging.getLogger(__name__)

Row = Mapping[str, Any]
Columns = dict[str, Sequence[Any]]
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
Adds = Callable[Concatenate[Mapping[str, Any], P], Row]

ROWS_AT_A_TIME = 50  # rows that ``columns`` fetches at once; 20 to 200 take the same time, 1000 a tenth more
SQLITE_READERS = 10  # connections; further threads wait
SQLITE_BUSY_SECONDS = 30
SERVER_RECYCLE_SECONDS = 3600
SERVER_IDLE_SECONDS = 5  # a connection that was idle for longer is tested before it is used
SERVER_WAIT_SECONDS = 10  # between the attempts to reach a server at the start
SERVER_ATTEMPTS = 10

# MariaDB's temporary errors: too many connections, shutting down, the user's limit of connections.
MYSQL_NOT_NOW = frozenset({1040, 1053, 1203, 1226})
# MariaDB's permanent errors: unknown user or database, wrong password, client host not allowed, no TLS at one side.
MYSQL_NEVER = frozenset({1044, 1045, 1049, 1130, 1698, 2026, 3159})
# PostgreSQL's permanent errors. psycopg has the reason only as text, which may be in another language than English.
# Every other text counts as temporary.
POSTGRES_NEVER = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|(role|database) \".*\" does not exist"
    r"|is not permitted to log in|permission denied for database|server does not support SSL"
)
# A server whose certificate is of another authority or for another host, in the words of OpenSSL and libpq.
DISTRUSTED = re.compile(r"(?i)certificate.verify.failed|server certificate for .* does not match host name")

# Errors of a database that cannot be written: MariaDB's numbers, PostgreSQL's SQLSTATE and SQLite's texts. After the
# first three SQLite has ended the transaction, so that going back to a savepoint fails with "no such savepoint".
READ_ONLY = "the server is read-only"
NOT_WRITTEN: Mapping[Any, str] = {
    **dict.fromkeys((1021, 1026, 1114, "53100"), "its disk is full"),
    **dict.fromkeys((1290, 1792, 1836, "25006"), READ_ONLY),
}
SQLITE_NOT_WRITTEN = re.compile(
    "database or disk is full|attempt to write a readonly database|disk I/O error|no such savepoint"
)

# The isolation level that the transactions need, whatever the server's default: statements after a lock see all commits
# from before the lock. At higher levels PostgreSQL aborts concurrent transactions, where MariaDB lets them wait.
POSTGRES_ISOLATION = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"


@dataclass(frozen=True, slots=True)
class _Engines:
    """The engines of this process. ``single`` commits each statement by itself; None for SQLite."""

    reader: sa.Engine
    writer: sa.Engine
    write_lock: contextlib.AbstractContextManager[Any]
    single: sa.Engine | None


_engines: _Engines | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A request of another program for which transactions are done now. ``again``: it may have been done before."""

    time: datetime.datetime
    again: bool


_request: contextvars.ContextVar[Request | None] = contextvars.ContextVar("request", default=None)


@contextlib.contextmanager
def asked_by(request: Request) -> Iterator[None]:
    """Do the transactions of the block for ``request``: its time is that of the changes, so they can be recognised."""
    token = _request.set(request)
    try:
        yield
    finally:
        _request.reset(token)


def now() -> datetime.datetime:
    """Return the time of a change: that of the request, or the present."""
    request = _request.get()
    return timeutils.utcnow() if request is None else request.time


def touched_within(row: Row, seconds: float) -> bool:
    """Return whether the row was written in the last ``seconds``.

    A time in the future means that the clock was set back, so the difference counts in both directions.
    """
    touched = row["updated_at"] or row["created_at"]
    return bool(abs(timeutils.utcnow() - touched) < datetime.timedelta(seconds=seconds))


def configure(url: str, **pool: int) -> None:
    """Connect this process to ``url``.

    ``pool`` (``pool_size``, ``max_overflow``) holds for each of a server's two pools, readers and writers.
    """
    global _engines
    dispose()
    parsed = sa.make_url(url)
    _engines = _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _server(parsed, **pool)


def _connect(dialect: Any, _record: Any, arguments: Sequence[Any], parameters: dict[str, Any]) -> Any:
    """Return a new connection. DBConnectionError also for errors that oslo.db does not translate to it."""
    try:
        return dialect.connect(*arguments, **parameters)
    except dialect.loaded_dbapi.OperationalError as exc:
        if dialect.name == "postgresql" or exc.args[0] in MYSQL_NOT_NOW | MYSQL_NEVER:
            raise db_exc.DBConnectionError(exc) from exc
        raise


def _lets_nobody_in(error: Exception | None) -> bool:
    """Return whether ``error``, the driver's error of a connection attempt, is permanent."""
    if error is None:
        return False
    said = str(error)
    return error.args[0] in MYSQL_NEVER or any(each.search(said) for each in (POSTGRES_NEVER, DISTRUSTED))


def dispose() -> None:
    """Close every connection. The process must call ``configure`` before it connects again."""
    global _engines
    if _engines is not None:
        _engines.reader.dispose()
        _engines.writer.dispose()
    _engines = None


def _current() -> _Engines:
    if _engines is None:
        raise RuntimeError("no database: call zun.db.session.configure(url) first")
    return _engines


def engine() -> sa.Engine:
    """Return the engine of the writers, for its URL and for listeners to its statements."""
    return _current().writer


@contextlib.contextmanager
def reader() -> Iterator[sa.Connection]:
    """Give a connection for queries."""
    with _current().reader.connect() as connection:
        yield connection


@contextlib.contextmanager
def writer() -> Iterator[sa.Connection]:
    """Give a connection in a transaction, which is committed at the end and rolled back on an exception."""
    engines_ = _current()
    with engines_.write_lock, engines_.writer.begin() as connection:
        yield connection


@contextlib.contextmanager
def single() -> Iterator[sa.Connection]:
    """Give a connection for one statement, which is committed at once."""
    engine_ = _current().single
    with writer() if engine_ is None else engine_.connect() as connection:
        yield connection


def rows(
    connection: sa.Connection, statement: sa.Executable, parameters: Mapping[str, Any] | None = None
) -> list[Row]:
    """Return the rows of a query, each by column name."""
    return cast(list[Row], connection.execute(statement, parameters).mappings().all())


def columns(connection: sa.Connection, statement: sa.Executable) -> Iterator[Columns]:
    """Yield the result of a query, some rows at a time, as values by column: ``{"id": (1, 2), "name": ("a", "b")}``."""
    result = connection.execute(statement)
    names = tuple(result.keys())
    for found in result.partitions(ROWS_AT_A_TIME):
        yield dict(zip(names, zip(*found, strict=True), strict=True))


def first(
    connection: sa.Connection, statement: sa.Executable, parameters: Mapping[str, Any] | None = None
) -> Row | None:
    """Return the first row of a query, or None."""
    return cast(Row | None, connection.execute(statement, parameters).mappings().first())


def found(statement: sa.Executable, missing: exceptions.ZunError, parameters: Mapping[str, Any] | None = None) -> Row:
    """Return the first row of a query on a connection of its own. Raises ``missing`` if there is no row."""
    with reader() as connection:
        row = first(connection, statement, parameters)
    if row is None:
        raise missing
    return row


def locked(connection: sa.Connection, table: sa.Table, uuid: str, missing: exceptions.ZunError) -> Row:
    """Lock the row of this uuid until the transaction ends, and return the row. Raises ``missing``."""
    row = first(connection, sa.select(table).where(table.c.uuid == uuid).with_for_update())
    if row is None:
        raise missing
    return row


def add(connection: sa.Connection, table: sa.Table, values: Mapping[str, Any]) -> Row:
    """Add a row with a ``uuid``, set ``created_at`` to now, and return the whole row."""
    connection.execute(table.insert().values(**values, created_at=timeutils.utcnow()))
    return rows(connection, sa.select(table).where(table.c.uuid == values["uuid"]))[0]


def _may_work_again(exc: Exception) -> bool:
    # MariaDB ends the whole transaction that loses a deadlock. Going back to its savepoint then fails, and this second
    # error has the deadlock as its cause.
    return isinstance(exc, db_exc.DBConnectionError) or isinstance(getattr(exc, "cause", None), db_exc.DBDeadlock)


def _cannot_be_written(context: sa.engine.ExceptionContext) -> None:
    """Raise Unavailable if the database cannot be written, for example because its disk is full."""
    error: Any = context.original_exception
    kind = context.dialect.name
    if kind == "sqlite":
        found = SQLITE_NOT_WRITTEN.search(str(error))
        reason = found and found[0]
    else:
        code = getattr(error, "sqlstate", None) if kind == "postgresql" else next(iter(error.args), None)
        reason = NOT_WRITTEN.get(code)
    if not reason:
        return
    LOG.error("The database cannot be written: %s", exceptions.first_line(error))
    if reason == READ_ONLY:  # a new connection may reach the server that took over
        context.is_disconnect = True
    raise exceptions.Unavailable(
        f"The database cannot be written: {reason}. Try again; tell the operator if it stays so."
    )


def _translate_errors(made: sa.Engine) -> None:
    sa.event.listen(made, "handle_error", _cannot_be_written)
    exc_filters.register_engine(made)


def retry(function: F) -> F:
    """Run ``function`` again if it lost a deadlock or its connection. It must be one whole transaction."""
    wrapped = oslo_db_api.wrap_db_retry(
        max_retries=10,
        retry_interval=0.05,
        inc_retry_interval=True,
        max_retry_interval=1,
        jitter=True,
        retry_on_deadlock=True,
        retry_on_disconnect=True,
        exception_checker=_may_work_again,
    )(function)
    return functools.wraps(function)(wrapped)  # type: ignore[return-value]


def repeat(transaction: Callable[[bool], R]) -> R:
    """Return what ``transaction`` returns. Run it again, as ``retry`` does, and tell it whether it was tried before.

    If a connection is lost during the commit, nobody knows whether the commit happened. So a second attempt may find
    its own changes in the database; then it must return the answer that was lost.
    """
    request = _request.get()
    attempts = itertools.count(request is not None and request.again)
    return retry(lambda: transaction(next(attempts) > 0))()


def retry_adding(table: sa.Table) -> Callable[[Adds[P]], Adds[P]]:
    """Retry a function that adds a row to ``table`` and returns the row. Its first argument has the row's values.

    A missing ``uuid`` is filled in before the first attempt. A later attempt that finds a row of this uuid returns that
    row: the attempt before was committed, and only its answer was lost.
    """

    def adding(function: Adds[P]) -> Adds[P]:
        @functools.wraps(function)
        def add(values: Mapping[str, Any], *more: P.args, **named: P.kwargs) -> Row:
            whole = {**values, "uuid": values.get("uuid") or uuidutils.generate_uuid()}

            def attempt(again: bool) -> Row:
                if again:
                    with reader() as connection:
                        added = first(connection, sa.select(table).where(table.c.uuid == whole["uuid"]))
                    if added is not None:
                        return added
                return function(whole, *more, **named)

            return repeat(attempt)

        return add

    return adding


def _server(url: sa.URL, **pool: int) -> _Engines:
    if url.get_backend_name() in ("mysql", "mariadb"):
        # Without utf8mb4, for example with "utf8", a request with a character of four bytes (an emoji) fails.
        url = url.update_query_dict({"charset": "utf8mb4"})

    def make(**more: Any) -> sa.Engine:
        made = sa.create_engine(
            url,
            pool_recycle=SERVER_RECYCLE_SECONDS,
            pool_reset_on_return=None,
            json_deserializer=orjson.loads,
            **pool,
            **more,
        )
        sa.event.listen(made, "do_connect", _connect)
        if made.dialect.name == "postgresql":
            sa.event.listen(made, "connect", _isolate)
        _try_the_idle(made)
        _translate_errors(made)
        return made

    writer = make()
    _reach(writer)
    reader = make(isolation_level="AUTOCOMMIT", skip_autocommit_rollback=True)
    return _Engines(reader, writer, contextlib.nullcontext(), single=reader)


def _isolate(connection: Any, _record: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(POSTGRES_ISOLATION)
    connection.commit()


def _try_the_idle(server: sa.Engine) -> None:
    """Test a connection that was idle for SERVER_IDLE_SECONDS before it is used."""

    @sa.event.listens_for(server, "checkin")
    def left(_connection: Any, record: Any) -> None:
        record.info["left"] = time.monotonic()

    @sa.event.listens_for(server, "checkout")
    def taken(connection: Any, record: Any, _proxy: Any) -> None:
        since = record.info.get("left")
        if since is None or time.monotonic() - since < SERVER_IDLE_SECONDS:
            return
        try:
            server.dialect.do_ping(connection)
        except server.dialect.loaded_dbapi.Error as exc:
            raise sa.exc.DisconnectionError from exc  # the pool connects anew


def _reach(server: sa.Engine) -> None:
    """Wait for a database that is not up yet. DBConnectionError if it does not come up, or refuses this service."""
    for left in reversed(range(SERVER_ATTEMPTS)):
        try:
            server.connect().close()
            return
        except db_exc.DBConnectionError as exc:
            if not left or _lets_nobody_in(exc.inner_exception):
                raise
            reason = exceptions.first_line(exc)
        where = server.url.render_as_string()
        # Outside the handler, because oslo.log adds an exception that is being handled to the line.
        LOG.warning("Database %s does not answer, asking again in %g s: %s", where, SERVER_WAIT_SECONDS, reason)
        time.sleep(SERVER_WAIT_SECONDS)


def _make_private(path: pathlib.Path) -> None:
    """Make the file of an SQLite database, if there is none, and close it to other users: the environment of every
    container is in it. SQLite gives ``-wal`` and ``-shm`` the mode of the file when it makes them.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    for each in (path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))):
        try:
            # Without opening the file: closing it again would drop the locks that this process has on it.
            if each.stat().st_mode & 0o077:
                each.chmod(0o600)
        except FileNotFoundError:
            continue
        except PermissionError:
            LOG.warning("%s is open to other users of this machine. Its owner can close it: chmod 600 %s", each, each)


def _sqlite(url: sa.URL) -> _Engines:
    if url.database in (None, "", ":memory:"):
        raise ValueError("an SQLite database must be a file, its connections would each see another one in memory")
    _make_private(pathlib.Path(str(url.database)))

    def make(pool_size: int, begin: str) -> sa.Engine:
        made = sa.create_engine(
            url,
            poolclass=sa.QueuePool,
            pool_size=pool_size,
            max_overflow=0,
            connect_args={"timeout": SQLITE_BUSY_SECONDS},
            json_deserializer=orjson.loads,
        )

        @sa.event.listens_for(made, "connect")
        def pragmas(connection: Any, _record: Any) -> None:
            connection.isolation_level = None  # the listener below begins transactions, not the driver
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")

        @sa.event.listens_for(made, "begin")
        def begin_as(connection: sa.Connection) -> None:
            connection.exec_driver_sql(begin)

        _translate_errors(made)
        return made

    # SQLite allows one writer at a time. A thread that waits for this lock wakes at once; SQLite's busy handler sleeps.
    return _Engines(make(SQLITE_READERS, "BEGIN"), make(1, "BEGIN IMMEDIATE"), threading.Lock(), single=None)
