# SPDX-License-Identifier: Apache-2.0
"""PyMySQL with rows read in one loop.

PyMySQL is written in Python and calls three functions for each value of a row: half of what a page of containers costs.
Only that step, and how times are read, is replaced; the values are the same. Its names are private to PyMySQL: should
they change, its own step runs again, and a test compares the two.
"""

import datetime
from typing import Any

import pymysql
from pymysql import connections, converters
from pymysql.constants import FIELD_TYPE

_NULL = 251  # the first byte of a value says that there is none, or how many bytes behind it say how long it is
_LENGTH_BYTES = {252: 2, 253: 3, 254: 8}


class _Result(connections.MySQLResult):
    def _read_row_from_packet(self, packet: Any) -> tuple[Any, ...]:
        data: bytes = packet.get_all_data()
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
            value: Any = data[start : start + length]
            start += length
            if encoding is not None:
                value = value.decode(encoding)
            row.append(value if read is None else read(value))
        return tuple(row)


class _Connection(connections.Connection):
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


def connect(**arguments: Any) -> pymysql.Connection:
    """A connection, from what ``pymysql.connect`` takes."""
    read = datetime.datetime.fromisoformat  # PyMySQL takes times apart with an expression and in Python
    times = {FIELD_TYPE.DATETIME: read, FIELD_TYPE.TIMESTAMP: read}
    return _Connection(**arguments, conv={**converters.conversions, **times})
