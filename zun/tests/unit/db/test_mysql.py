# SPDX-License-Identifier: Apache-2.0
"""Rows are read as PyMySQL reads them."""

import datetime
from types import SimpleNamespace

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
    ours = mysql._Result._read_row_from_packet(result, protocol.MysqlPacket(data, "utf8"))
    assert ours == theirs
    assert len(ours) == len(columns)


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
            assert "_read_row_from_packet" in vars(connections.MySQLResult)
