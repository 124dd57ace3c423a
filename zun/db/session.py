# SPDX-License-Identifier: Apache-2.0
"""Connections to the one database: SQLite embedded, MariaDB and PostgreSQL otherwise, for the same queries.

``configure(url)`` once per process, then ``reader()`` and ``writer()`` give a connection, the writer's with a
transaction.

A server gets no statement that nobody needs: a query is one, a change its own and the commit. So readers are in
autocommit mode, with connections of their own; nothing is rolled back when a connection goes back to its pool, because
``reader()`` and ``writer()`` are the only ways to it and leave nothing open; and only a connection that was idle for a
while is asked whether it still lives. oslo.db's engines can do none of this; its names for errors are kept.

SQLite is opened here and not by oslo.db, which forces a connection a transaction on it: in WAL mode each last close is
a checkpoint, tens of commits a second instead of hundreds. Its writers begin IMMEDIATE, because a transaction that
reads first and writes later otherwise fails with "database is locked" when another one wrote in between.
"""

import contextlib
import functools
import logging
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
from zun.db import mysql

LOG = logging.getLogger(__name__)

Row = Mapping[str, Any]
Columns = dict[str, Sequence[Any]]
Statement = tuple[sa.Executable, Mapping[str, Any]]  # and its parameters
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
Adds = Callable[Concatenate[Mapping[str, Any], P], Row]

ROWS_AT_A_TIME = 50  # of those that are used up piece by piece; 20 to 200 take the same time, 1000 a tenth more
SQLITE_READERS = 10  # connections; more threads than this wait for one another
SQLITE_BUSY_SECONDS = 30
SERVER_RECYCLE_SECONDS = 3600
SERVER_IDLE_SECONDS = 5  # after so long a connection may have died, and is tried before it is used
SERVER_WAIT_SECONDS = 10  # between the attempts to reach a server that is not up yet, at the start
SERVER_ATTEMPTS = 10

# MariaDB's errors that pass: all connections are taken, it is shutting down, or the user has as many as it may have.
MYSQL_NOT_NOW = frozenset({1040, 1053, 1203, 1226})
# Those that stay: no such user, password or database, or not from here.
MYSQL_NEVER = frozenset({1044, 1045, 1049, 1130, 1698})
# psycopg tells no reason but in words, and a server may have been told to speak another language than English. What
# these are not passes.
POSTGRES_NEVER = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|(role|database) \".*\" does not exist"
    r"|is not permitted to log in|permission denied for database"
)

# What a server says when it cannot write: MariaDB's numbers, PostgreSQL's SQLSTATE. SQLite says it in words, of which
# the last hide one of the others: it has ended the whole transaction, and there is no savepoint to go back to.
READ_ONLY = "the server is read-only"
NOT_WRITTEN: Mapping[Any, str] = {
    **dict.fromkeys((1021, 1026, 1114, "53100"), "its disk is full"),
    **dict.fromkeys((1290, 1792, 1836, "25006"), READ_ONLY),
}
SQLITE_NOT_WRITTEN = re.compile(
    "database or disk is full|attempt to write a readonly database|disk I/O error|no such savepoint"
)

# What the transactions are written for, whatever the server's own default is: what follows a lock sees what was
# committed before it was had. With more, PostgreSQL refuses those that meet, where MariaDB lets them wait.
POSTGRES_ISOLATION = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"


@dataclass(frozen=True, slots=True)
class _Engines:
    """The process's connections. ``single``, if there is one, commits each statement by itself."""

    reader: sa.Engine
    writer: sa.Engine
    write_lock: contextlib.AbstractContextManager[Any]
    single: sa.Engine | None


_engines: _Engines | None = None


def configure(url: str, **pool: int) -> None:
    """Connect this process to ``url``. ``pool`` (``pool_size``, ``max_overflow``) is for server databases: of the
    connections that read, and as many that write.
    """
    global _engines
    dispose()
    parsed = sa.make_url(url)
    _engines = _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _server(parsed, **pool)


def _connect(dialect: Any, _record: Any, arguments: Sequence[Any], parameters: dict[str, Any]) -> Any:
    """A new connection. DBConnectionError also for what oslo.db does not know as one that may come yet."""
    try:
        return mysql.connect(**parameters) if dialect.driver == "pymysql" else dialect.connect(*arguments, **parameters)
    except dialect.loaded_dbapi.OperationalError as exc:
        if dialect.name == "postgresql" or exc.args[0] in MYSQL_NOT_NOW | MYSQL_NEVER:
            raise db_exc.DBConnectionError(exc) from exc
        raise


def _lets_nobody_in(error: Exception | None) -> bool:
    """Whether waiting is in vain, where ``error`` is what the driver said of an attempt to connect."""
    return error is not None and (error.args[0] in MYSQL_NEVER or POSTGRES_NEVER.search(str(error)) is not None)


def dispose() -> None:
    """Close every connection. Afterwards ``configure`` again."""
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
    """The one that writes: where the database is, and what is sent there."""
    return _current().writer


@contextlib.contextmanager
def reader() -> Iterator[sa.Connection]:
    """A connection for queries."""
    with _current().reader.connect() as connection:
        yield connection


@contextlib.contextmanager
def writer() -> Iterator[sa.Connection]:
    """A connection in a transaction that is committed at the end, rolled back on an exception."""
    engines_ = _current()
    with engines_.write_lock, engines_.writer.begin() as connection:
        yield connection


@contextlib.contextmanager
def single() -> Iterator[sa.Connection]:
    """A connection for one statement that changes something, and is committed with it."""
    engine_ = _current().single
    with writer() if engine_ is None else engine_.connect() as connection:
        yield connection


def rows(
    connection: sa.Connection, statement: sa.Executable, parameters: Mapping[str, Any] | None = None
) -> list[Row]:
    """What a query finds, by column name."""
    return cast(list[Row], connection.execute(statement, parameters).mappings().all())


def columns(connection: sa.Connection, statement: sa.Executable) -> Iterator[Columns]:
    """What a query finds, column by column, some rows at a time."""
    result = connection.execute(statement)
    names = tuple(result.keys())
    for found in result.partitions(ROWS_AT_A_TIME):
        yield dict(zip(names, zip(*found, strict=True), strict=True))


def first(
    connection: sa.Connection, statement: sa.Executable, parameters: Mapping[str, Any] | None = None
) -> Row | None:
    """The first row of what a query finds."""
    return cast(Row | None, connection.execute(statement, parameters).mappings().first())


def found(statement: sa.Executable, missing: exceptions.ZunError, parameters: Mapping[str, Any] | None = None) -> Row:
    """The first row of what a query finds, in a transaction of its own. Raises ``missing`` for none."""
    with reader() as connection:
        row = first(connection, statement, parameters)
    if row is None:
        raise missing
    return row


def locked(connection: sa.Connection, table: sa.Table, uuid: str, missing: exceptions.ZunError) -> Row:
    """The row of this uuid, which nobody else locks or changes until the transaction ends. Raises ``missing``."""
    row = first(connection, sa.select(table).where(table.c.uuid == uuid).with_for_update())
    if row is None:
        raise missing
    return row


def add(connection: sa.Connection, table: sa.Table, values: Mapping[str, Any]) -> Row:
    """Add a row, which has a ``uuid``, as one that is created now. Returns the whole row."""
    connection.execute(table.insert().values(**values, created_at=timeutils.utcnow()))
    return rows(connection, sa.select(table).where(table.c.uuid == values["uuid"]))[0]


def together(connection: sa.Connection, *statements: Statement) -> tuple[list[int], sa.CursorResult[Any]]:
    """Run statements with their parameters one after the other, PyMySQL's in one message. Returns how many rows each
    has changed, and what the last finds: values as the driver has them.

    None may need the answer of another one or the default of a column, and the transaction must fail if one does.
    """
    if connection.dialect.driver != "pymysql":
        results = [connection.execute(*each) for each in statements]
        return [each.rowcount for each in results], results[-1]
    texts: list[str] = []
    values: list[Any] = []
    for statement, parameters in statements:
        text, fixed, places = _text(statement, connection.dialect, frozenset(parameters))
        given = {**fixed, **parameters}
        texts.append(text)
        values += [given[name] if write is None else write(given[name]) for name, write in places]
    result = connection.exec_driver_sql(";".join(texts), tuple(values))
    answered: Any = result.context
    return answered.cursor.rowcounts, result


@functools.lru_cache(maxsize=100)
def _text(
    statement: sa.Executable, dialect: sa.Dialect, names: frozenset[str]
) -> tuple[str, Mapping[str, Any], list[tuple[str, Callable[[Any], Any] | None]]]:
    """A statement with parameters of these ``names``: its text, the values it has besides them, and the name of the
    value of each place in the text with what makes it one that the driver takes.
    """
    made = cast(Any, statement).compile(dialect=dialect, column_keys=list(names))
    if made.prefetch:
        raise ValueError(f"nobody would fill in the default of {', '.join(map(str, made.prefetch))}")
    write = {name: bound.type.dialect_impl(dialect).bind_processor(dialect) for name, bound in made.binds.items()}
    return made.string, made.params, [(name, write[name]) for name in made.positiontup]


def _may_work_again(exc: Exception) -> bool:
    # MariaDB ends the whole transaction that loses a deadlock; going back to its savepoint then fails, which is the
    # error that is seen, with the deadlock as its cause.
    return isinstance(exc, db_exc.DBConnectionError) or isinstance(getattr(exc, "cause", None), db_exc.DBDeadlock)


def _cannot_be_written(context: sa.engine.ExceptionContext) -> None:
    """It is the machine's fault, and over when there is room again; nothing of the transaction was written."""
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
    if reason == READ_ONLY:  # a new connection finds the server that took over, where a name leads to that
        context.is_disconnect = True
    raise exceptions.Unavailable(
        f"The database cannot be written: {reason}. Try again; tell the operator if it stays so."
    )


def _translate_errors(made: sa.Engine) -> None:
    sa.event.listen(made, "handle_error", _cannot_be_written)
    exc_filters.register_engine(made)


def retry(function: F) -> F:
    """Run again what lost a deadlock or its connection. ``function`` must be one whole transaction."""
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


def retry_again(function: Callable[Concatenate[bool, P], R]) -> Callable[P, R]:
    """As ``retry``, for a function whose first argument says whether this was tried before.

    A connection that is lost while a transaction is committed leaves open whether it was. So what is tried again may be
    there already, and its answer must be the one that was lost.
    """

    @retry
    def attempt(before: list[None], *arguments: P.args, **named: P.kwargs) -> R:
        again = bool(before)
        before.append(None)
        return function(again, *arguments, **named)

    @functools.wraps(function)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        return attempt([], *arguments, **named)

    return run


def retry_adding(table: sa.Table) -> Callable[[Adds[P]], Adds[P]]:
    """As ``retry``, for a function that adds a row to ``table`` and returns it. Its first argument says what the row is
    to hold; a ``uuid`` is filled in.

    A connection that is lost while a transaction is committed leaves open whether it was. If it was, the row is there,
    and is not added again.
    """

    def adding(function: Adds[P]) -> Adds[P]:
        @retry_again
        def attempt(again: bool, values: Mapping[str, Any], *more: P.args, **named: P.kwargs) -> Row:
            if again:
                with reader() as connection:
                    added = first(connection, sa.select(table).where(table.c.uuid == values["uuid"]))
                if added is not None:
                    return added
            return function(values, *more, **named)

        @functools.wraps(function)
        def add(values: Mapping[str, Any], *more: P.args, **named: P.kwargs) -> Row:
            whole = {**values, "uuid": values.get("uuid") or uuidutils.generate_uuid()}
            return attempt(whole, *more, **named)

        return add

    return adding


def _server(url: sa.URL, **pool: int) -> _Engines:
    is_mysql = url.get_backend_name() in ("mysql", "mariadb")
    if is_mysql:
        # Without it, or with the "utf8" of old advice, a character of four bytes in a request is a failure.
        url = url.update_query_dict({"charset": "utf8mb4"})
    # Places without names, as "format" has them: texts and values of several statements can be put side by side.
    own = {"paramstyle": "format"} if is_mysql and url.get_dialect().driver == "pymysql" else {}

    def make(**more: Any) -> sa.Engine:
        made = sa.create_engine(
            url,
            pool_recycle=SERVER_RECYCLE_SECONDS,
            pool_reset_on_return=None,
            json_deserializer=orjson.loads,
            **pool,
            **own,
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
    """Ask connections that were idle for a while whether they still live, before they are used."""

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
    """Wait for a database that is not up yet. Raises DBConnectionError when it does not come, or lets nobody in."""
    for left in reversed(range(SERVER_ATTEMPTS)):
        try:
            server.connect().close()
            return
        except db_exc.DBConnectionError as exc:
            if not left or _lets_nobody_in(exc.inner_exception):
                raise
            reason = exceptions.first_line(exc)
        where = server.url.render_as_string()
        # Out here, because oslo.log says once more what is being handled.
        LOG.warning("Database %s does not answer, asking again in %g s: %s", where, SERVER_WAIT_SECONDS, reason)
        time.sleep(SERVER_WAIT_SECONDS)


def _sqlite(url: sa.URL) -> _Engines:
    if url.database in (None, "", ":memory:"):
        raise ValueError("an SQLite database must be a file, its connections would each see another one in memory")
    pathlib.Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)

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
            connection.isolation_level = None  # the driver begins nothing by itself; the listener below does
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")

        @sa.event.listens_for(made, "begin")
        def begin_as(connection: sa.Connection) -> None:
            connection.exec_driver_sql(begin)

        _translate_errors(made)
        return made

    # One writer at a time is SQLite's own rule. Waiting for it on a lock of ours is fair and wakes at once, where its
    # busy handler sleeps.
    return _Engines(make(SQLITE_READERS, "BEGIN"), make(1, "BEGIN IMMEDIATE"), threading.Lock(), single=None)
