# SPDX-License-Identifier: Apache-2.0
"""Where a request ends, by the rules of RFC 9112. No I/O.

A proxy before the service reads the same bytes. If both do not agree where a request ends, the rest of one request is
the next one for the other, past all that the proxy checks. So a head with more than one answer is refused.
"""

import re
from dataclasses import dataclass

from zun.api import errors, limits

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(;[^\r\n]*)?\r\n")
_LONGEST_SIZE = 256  # bytes of the line with the size of a chunk


class Malformed(errors.RoutingError):
    """A head that is not HTTP, or that programs read in different ways."""

    code = 400


class TooManyHeaders(errors.RoutingError):
    code = 431


class UnknownCoding(errors.RoutingError):
    code = 501


@dataclass(frozen=True, slots=True)
class Framing:
    """``length`` of the body in bytes, or None for a body in chunks. ``expects``: the client waits for 100 Continue."""

    length: int | None
    expects: bool


def framing(head: bytes) -> Framing:
    """Return how the body behind ``head`` ends. ``head`` has the first line, all headers, and the empty line.

    Raises Malformed, TooManyHeaders and UnknownCoding.
    """
    lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    if len(lines) - 1 > limits.HEADERS:
        raise TooManyHeaders(f"The request has {len(lines) - 1} headers and may have {limits.HEADERS}.")
    if any(b"\r" in line or b"\n" in line or b"\0" in line for line in lines):
        raise Malformed("The request has a line that does not end with CR and LF, or a NUL character.")
    found: dict[bytes, list[bytes]] = {b"content-length": [], b"transfer-encoding": [], b"host": [], b"expect": []}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or _NAME.fullmatch(name) is None:
            shown = name[:64].decode("latin-1")
            raise Malformed(f"The line {shown!r} is no header: write NAME: VALUE, without a blank before the colon.")
        found.get(name.lower(), []).append(value.strip(b" \t"))
    for name in (b"content-length", b"transfer-encoding", b"host"):
        if len(found[name]) > 1:
            raise Malformed(f"The request has {len(found[name])} headers {name.decode()}; send one.")
    expects = any(value.lower() == b"100-continue" for value in found[b"expect"])
    if found[b"transfer-encoding"]:
        return _coded(lines[0], found[b"transfer-encoding"][0], bool(found[b"content-length"]), expects=expects)
    length = b"".join(found[b"content-length"]) if found[b"content-length"] else b"0"
    if not length.isdigit() or len(length) > _LONGEST_SIZE:
        raise Malformed("The Content-Length header is not a number.")
    return Framing(int(length), expects)


def _coded(first: bytes, coding: bytes, with_length: bool, *, expects: bool) -> Framing:
    if with_length:
        raise Malformed("The request has both Transfer-Encoding and Content-Length; send one.")
    if first.endswith(b"HTTP/1.0"):
        raise Malformed("HTTP/1.0 has no Transfer-Encoding; send Content-Length.")
    if coding.lower() != b"chunked":
        raise UnknownCoding("The only Transfer-Encoding of a request is chunked.")
    return Framing(None, expects)


class TooSmallChunks(ValueError):
    """A body in chunks costs more than its bytes. The text is for the client."""


class ChunkCount:
    """The chunks of one body so far. A chunk costs as much as thousands of bytes, whatever its size."""

    def __init__(self) -> None:
        self._chunks = 0
        self._bytes = 0

    def add(self, size: int) -> None:
        """Count a chunk of ``size`` bytes. Raises TooSmallChunks."""
        self._chunks += 1
        self._bytes += size
        if self._chunks > limits.CHUNKS + self._bytes // limits.CHUNK_BYTES:
            raise TooSmallChunks(f"its {self._chunks} chunks have {self._bytes} bytes; send larger chunks")


def chunk_size(line: bytes) -> int:
    """Return the size that the line before a chunk names. Raises ValueError."""
    size = _SIZE.fullmatch(line)
    if size is None:
        raise ValueError("the size of a chunk is not a hexadecimal number")
    return int(size[1], 16)


class Chunks:
    """Find the end of a body in chunks in a buffer that grows. ``start`` is the first byte behind the head."""

    def __init__(self, start: int) -> None:
        self._start = self._next = start  # of the line with the size of the next chunk
        self._count = ChunkCount()

    def arrived(self, buffer: bytearray, most: int) -> bool:
        """Return whether the last chunk has come, or more than ``most`` bytes, or what can be no chunk."""
        while self._next < len(buffer):
            end = buffer.find(b"\n", self._next, self._next + _LONGEST_SIZE) + 1
            if not end:
                return len(buffer) - self._next >= _LONGEST_SIZE
            try:
                size = chunk_size(bytes(buffer[self._next : end]))
                self._count.add(size)
            except ValueError:
                return True
            if not size:
                return True
            self._next = end + size + len(b"\r\n")
        return len(buffer) - self._start > most
