# SPDX-License-Identifier: Apache-2.0
"""PyMySQL with rows read in one loop.

PyMySQL is written in Python and calls some twenty functions for each row and three for each of its values: half of what
a page of containers costs. Only these steps, and how times are read, are replaced; the values are the same. Their names
are private to PyMySQL: should they change, its own steps run again, and a test compares the two.
"""

import contextlib
import datetime
from typing import Any

import pymysql
from pymysql import connections, converters, cursors
from pymysql.constants import CLIENT, FIELD_TYPE

_NULL = 251  # the first byte of a value says that there is none, or how many bytes behind it say how long it is
_LENGTH_BYTES = {252: 2, 253: 3, 254: 8}


_AT_ONCE = 1 << 16  # bytes that are read
_NO_ROW = 0xFE  # from here on the first byte says so: the end of the rows, or an error


class _Result(connections.MySQLResult):
    def _read_rowdata_packet(self) -> None:
        connection: Any = self.connection
        rows: list[tuple[Any, ...]] = []
        while True:
            self._take_what_is_here(connection, rows)
            packet = connection._read_packet()
            if self._check_packet_is_eof(packet):
                break
            rows.append(self._read_row_from_packet(packet))
        self.affected_rows = len(rows)
        self.rows = tuple(rows)

    def _take_what_is_here(self, connection: Any, rows: list[tuple[Any, ...]]) -> None:
        """Add the rows that have come as a whole. All else, failures too, stays where it is for PyMySQL's own step."""
        data = b""
        with contextlib.suppress(OSError):
            data = connection._rfile.peek()
        start, number = 0, connection._next_seq_id
        while start + 4 < len(data):  # a packet: three bytes say how long it is, one is its number
            end = start + 4 + data[start] + (data[start + 1] << 8) + (data[start + 2] << 16)
            if end > len(data) or data[start + 3] != number or data[start + 4] >= _NO_ROW:
                break
            rows.append(self._row(data[start + 4 : end]))
            start, number = end, (number + 1) % 256
        connection._rfile.read(start)
        connection._next_seq_id = number

    def _read_row_from_packet(self, packet: Any) -> tuple[Any, ...]:
        return self._row(packet.get_all_data())

    def _row(self, data: bytes) -> tuple[Any, ...]:
        row: list[Any] = []
        start = 0
        for encoding, read in self.converters:
            length = data[start]
            start += 1
            if length == _NULL:
                row.append(None)
                continue
            if length > _NULL:
                behind = start + _LENGTH_BYTES[length]
                length, start = int.from_bytes(data[start:behind], "little"), behind
            value: Any = data[start : (start := start + length)]
            if encoding is not None:
                value = value.decode(encoding)
            row.append(value if read is None else read(value))
        return tuple(row)


class _Connection(connections.Connection):
    def connect(self, sock: Any = None) -> None:
        super().connect(sock)
        self._rfile = self._sock.makefile("rb", _AT_ONCE)

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        if unbuffered:
            return super()._read_query_result(unbuffered)
        self._result = None
        result = _Result(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return result.affected_rows


class _Cursor(cursors.Cursor):
    """Reads what each of several statements answers, which PyMySQL leaves to be asked for one by one.

    Then the cursor is at the answer of the last one; ``rowcounts`` are those of all. The server stops at the first that
    fails.
    """

    def execute(self, query: Any, args: Any = None) -> int:
        super().execute(query, args)
        self.rowcounts = [self.rowcount]
        while self.nextset():
            self.rowcounts.append(self.rowcount)
        return self.rowcount


def connect(**arguments: Any) -> pymysql.Connection:
    """A connection, from what ``pymysql.connect`` takes."""
    read = datetime.datetime.fromisoformat  # PyMySQL takes times apart with an expression and in Python
    times = {FIELD_TYPE.DATETIME: read, FIELD_TYPE.TIMESTAMP: read}
    flags = arguments.pop("client_flag", 0) | CLIENT.MULTI_STATEMENTS
    conv = {**converters.conversions, **times}
    return _Connection(**arguments, client_flag=flags, cursorclass=_Cursor, conv=conv)
