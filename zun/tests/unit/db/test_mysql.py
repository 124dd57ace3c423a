# SPDX-License-Identifier: Apache-2.0
"""Rows are read as PyMySQL reads them."""

import datetime
import io
import struct
from types import SimpleNamespace

import pymysql
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from pymysql import connections, protocol

from zun.db import models, mysql, session
from zun.tests.unit.common.proof import proof

TEXT = st.tuples(st.just("utf8"), st.none(), st.text(max_size=300).map(str.encode))
NUMBER = st.tuples(st.just("ascii"), st.just(int), st.integers().map(lambda number: str(number).encode()))
BINARY = st.tuples(st.none(), st.none(), st.sampled_from([0, 1, 250, 251, 252, 65535, 65536, 1 << 24]).map(bytes))
ABSENT = st.tuples(st.just("utf8"), st.just(int), st.none())


def sent(value):
    """A value as the protocol has it: how long it is and then itself."""
    if value is None:
        return b"\xfb"
    size = len(value)
    if size < 251:
        return bytes([size]) + value
    mark, width = (b"\xfc", 2) if size < 1 << 16 else (b"\xfd", 3) if size < 1 << 24 else (b"\xfe", 8)
    return mark + size.to_bytes(width, "little") + value


@proof(200)
@given(st.lists(TEXT | NUMBER | BINARY | ABSENT, max_size=8))
def test_a_row_is_read_as_pymysql_reads_it(columns):
    data = b"".join(sent(value) for _, _, value in columns)
    result = SimpleNamespace(converters=[(encoding, read) for encoding, read, _ in columns])
    theirs = connections.MySQLResult._read_row_from_packet(result, protocol.MysqlPacket(data, "utf8"))
    ours = mysql._Result._row(result, data)
    assert ours == theirs
    assert len(ours) == len(columns)


END = bytes([0xFE, 0, 0, 0, 0])
FAILED = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"


def packets(number, contents):
    """What a server sends, the first packet having this number."""
    sent = [len(data).to_bytes(3, "little") + bytes([(number + i) % 256]) + data for i, data in enumerate(contents)]
    return b"".join(sent)


class Socket(io.RawIOBase):
    """Gives what was sent in pieces of these sizes, the last again and again, and then nothing."""

    def __init__(self, sent, sizes):
        self._sent, self._sizes = io.BytesIO(sent), sizes

    def readable(self):
        return True

    def readinto(self, buffer):
        size = self._sizes.pop(0) if len(self._sizes) > 1 else self._sizes[0]
        data = self._sent.read(min(size, len(buffer)))
        buffer[: len(data)] = data
        return len(data)


def read(kind, sent, sizes, number, converters):
    """The rows that a result of this kind reads from a connection, or the failure; and what it says of itself."""
    connection = connections.Connection(defer_connect=True, ssl_disabled=True)  # to prepare TLS takes all the time
    connection._rfile = io.BufferedReader(Socket(sent, [*sizes]), 64)
    connection._current_timeout = connection._read_timeout
    connection._next_seq_id = number
    result = kind(connection)
    result.converters = converters
    try:
        result._read_rowdata_packet()
    except pymysql.MySQLError as exc:
        return type(exc), exc.args
    return result.rows, result.affected_rows, result.has_next, connection._next_seq_id


@proof(300)
@given(
    st.lists(TEXT | NUMBER | ABSENT, min_size=1, max_size=3),
    st.integers(0, 9),
    st.lists(st.integers(1, 200), min_size=1, max_size=9),
    st.sampled_from([0, 7, 250]),
    st.sampled_from(["well", "failed", "cut", "misnumbered"]),
)
def test_rows_are_read_as_pymysql_reads_them(columns, count, sizes, number, ends):
    row = b"".join(sent(value) for _, _, value in columns)
    sent_rows = packets(number, [*[row] * count, FAILED if ends == "failed" else END])
    if ends == "cut":
        sent_rows = sent_rows[:-3]
    if ends == "misnumbered":
        sent_rows = packets(number, [row] * count) + packets(number + count + 1, [row, END])
    given = sent_rows, sizes, number, [(encoding, read) for encoding, read, _ in columns]
    ours, theirs = read(mysql._Result, *given), read(connections.MySQLResult, *given)
    assert ours == theirs
    assert ends != "well" or (len(ours[0]), ours[1]) == (count, count)


def test_queries_read_rows_so(database):
    """PyMySQL may have other names for its steps in another version; then nothing fails, but reading is slow."""
    moment = datetime.datetime(2026, 1, 31, 12, 0, 0, 5)
    with session.writer() as connection:
        connection.execute(models.services.insert().values(host="é", binary="b", created_at=moment, report_count=7))
        columns = models.services.c
        row = connection.execute(sa.select(columns.host, columns.created_at, columns.report_count, sa.null())).one()
        assert tuple(row) == ("é", moment, 7, None)
        if session.engine().dialect.driver == "pymysql":
            result = connection.connection.dbapi_connection._result
            assert isinstance(result, mysql._Result)
            assert {"_read_rowdata_packet", "_read_row_from_packet"} <= vars(connections.MySQLResult).keys()
