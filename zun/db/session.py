# SPDX-License-Identifier: Apache-2.0
"""Connections to the one database: SQLite embedded, MariaDB and PostgreSQL otherwise, for the same queries.

``configure(url)`` once per process, then ``reader()`` and ``writer()`` give a connection inside a transaction.

SQLite is opened here and not by oslo.db, which forces a connection a transaction on it: in WAL mode each last close is
a checkpoint, tens of commits a second instead of hundreds. Its writers begin IMMEDIATE, because a transaction that
reads first and writes later otherwise fails with "database is locked" when another one wrote in between.
"""

import contextlib
import datetime
import functools
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

import orjson
import sqlalchemy as sa
from oslo_db import api as oslo_db_api
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import engines, exc_filters
from pymysql import converters
from pymysql.constants import FIELD_TYPE

Row = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])

SQLITE_READERS = 10  # connections; more threads than this wait for one another
SQLITE_BUSY_SECONDS = 30


class _Engines:
    """The process's reader and writer. On a server database both are the same engine."""

    def __init__(self, reader: sa.Engine, writer: sa.Engine, write_lock: Any) -> None:
        self.reader = reader
        self.writer = writer
        self.write_lock = write_lock


_engines: _Engines | None = None


def configure(url: str, **engine_args: Any) -> None:
    """Connect this process to ``url``. ``engine_args`` (pool sizes and so on) are for server databases."""
    global _engines
    dispose()
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        _engines = _sqlite(parsed)
    else:
        if parsed.get_backend_name() in ("mysql", "mariadb"):
            # Without it, or with the "utf8" of old advice, a character of four bytes in a request is a failure.
            parsed = parsed.update_query_dict({"charset": "utf8mb4"})
        whole = parsed.render_as_string(hide_password=False)
        engine = engines.create_engine(whole, json_deserializer=orjson.loads, **engine_args)
        if parsed.get_backend_name() in ("mysql", "mariadb"):
            sa.event.listen(engine, "do_connect", _read_times_fast)
            engine.dispose()  # the connection that tried the URL
        _engines = _Engines(engine, engine, contextlib.nullcontext())


def _read_times_fast(dialect: Any, record: Any, arguments: Any, parameters: dict[str, Any]) -> None:
    """PyMySQL takes times apart with an expression and in Python, a fifth of what reading a row costs."""
    read = datetime.datetime.fromisoformat
    parameters["conv"] = {**converters.conversions, FIELD_TYPE.DATETIME: read, FIELD_TYPE.TIMESTAMP: read}


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
    """The writing engine, for migrations."""
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


def rows(connection: sa.Connection, statement: sa.Executable) -> list[Row]:
    """What a query finds, by column name."""
    return cast(list[Row], connection.execute(statement).mappings().all())


def first(connection: sa.Connection, statement: sa.Executable) -> Row | None:
    """The first row of what a query finds."""
    return cast(Row | None, connection.execute(statement).mappings().first())


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
        exception_checker=lambda exc: isinstance(exc, db_exc.DBConnectionError),
    )(function)
    return functools.wraps(function)(wrapped)  # type: ignore[return-value]


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

        exc_filters.register_engine(made)
        return made

    # One writer at a time is SQLite's own rule. Waiting for it on a lock of ours is fair and wakes at once, where its
    # busy handler sleeps.
    return _Engines(make(SQLITE_READERS, "BEGIN"), make(1, "BEGIN IMMEDIATE"), threading.Lock())
