# SPDX-License-Identifier: Apache-2.0
"""Write and read archives in JSON texts that are too large for memory, piece by piece.

An archive is the member ``data``: base64 text, or before version 1.25 the bytes themselves as text, which only an
archive of text survives.

The reader is Zun's own because the JSON libraries that read streams return a string only when it is complete. A
``data`` of 86 MiB, which is 64 MiB of archive, added 175 MiB to the process with ijson 3.6.0 (yajl2_c) and 261 MiB with
json-stream 2.5.1. This reader holds one piece at a time.
"""

import base64
import codecs
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from zun.api import limits
from zun.common import exceptions

PIECE = 1 << 18  # bytes of an archive that are sent on together
_SPECIAL = re.compile(r'["\\\x00-\x1f]')
_OTHER = re.compile(r"[^ \t\r\n]")  # than what may stand between two tokens
_HEX = "[0-9a-fA-F]"
#: Escapes in a row, which the standard library reads together. Both halves of a surrogate pair, or none.
_ESCAPES = re.compile(
    rf'(?:\\(?:["\\/bfnrt]|u(?:[0-9a-ceA-CEfF]{_HEX}{{3}}'
    rf"|[dD](?:[0-7]{_HEX}{{2}}|[89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}))))+"
)
_LONGEST_ESCAPE = len(r"\ud800\udc00")


def check_path(path: str) -> str:
    """Raises InvalidValue for a path that no container has, or that is written to lead elsewhere than it says."""
    if not path.startswith("/") or ".." in path.split("/") or "\0" in path or len(path) > limits.PATH:
        raise exceptions.InvalidValue(
            f"path: '{path[:64]}' is no path from the root of the container (/DIRECTORY/...), without '..'."
        )
    return path


def answer(stat: Mapping[str, Any], pieces: Iterable[bytes], *, encoded: bool) -> Iterator[bytes]:
    """The JSON text with members ``stat`` and ``data``."""
    yield b'{"stat": ' + json.dumps(stat).encode() + b', "data": "'
    yield from _encoded(pieces) if encoded else _as_text(pieces)
    yield b'"}'


def _encoded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        whole = rest + piece
        cut = len(whole) - len(whole) % 3
        rest = whole[cut:]
        yield base64.b64encode(whole[:cut])
    yield base64.b64encode(rest)


def _as_text(pieces: Iterable[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        yield json.dumps(decoder.decode(piece))[1:-1].encode()
    yield json.dumps(decoder.decode(b"", True))[1:-1].encode()


class Body:
    """A JSON object whose members are texts, read as it comes. Raises ValidationError where it is none.

    ``members`` are those of ``names`` that stand before ``data``; they are there from the start. ``data()`` gives the
    text of that member in parts and then reads to the end of the body. Raises SchemaValidationError for other members,
    and for one that is given twice.
    """

    def __init__(self, stream: Iterable[bytes], names: Collection[str]) -> None:
        self._names = names
        self._texts = codecs.iterdecode(stream, "utf-8")
        self._text, self._at = "", 0  # unread from there on
        self._ended = False
        self.members: dict[str, str] = {}
        self.has_data = False
        self._read_to_data()

    def data(self) -> Iterator[str]:
        if not self.has_data:
            return
        yield from self._string()
        token = self._token()
        if token == ",":
            raise exceptions.ValidationError(detail="'data' must be the last member of the body.")
        self._end(token)

    def _read_to_data(self) -> None:
        first = self._token(optional=True)
        if first is None:
            return
        if first != "{":
            raise self._broken("an object is wanted")
        if self._peek() == "}":
            self._end(self._token())
            return
        while True:
            name = self._name()
            if name == "data":
                if self._token() != '"':
                    raise exceptions.SchemaValidationError(detail="data: it is not a text.")
                self.has_data = True
                return
            if name not in self._names:
                known = ", ".join([*self._names, "data"])
                raise exceptions.SchemaValidationError(detail=f"{name[:64]}: there is no such member; give {known}.")
            if name in self.members:
                raise exceptions.SchemaValidationError(detail=f"{name}: it is given twice; give it once.")
            if self._token() != '"':
                raise exceptions.SchemaValidationError(detail=f"{name}: it is not a text.")
            self.members[name] = self._short()
            token = self._token()
            if token != ",":
                self._end(token)
                return

    def _end(self, token: str | None) -> None:
        """Check that ``token`` ends the object, and the object the body."""
        if token != "}":
            raise self._broken("a comma or the end of the object is wanted")
        if self._token(optional=True) is not None:
            raise self._broken("something follows its end")

    def _name(self) -> str:
        if self._token() != '"':
            raise self._broken("a name in quotes is wanted")
        name = self._short()
        if self._token() != ":":
            raise self._broken("a colon is wanted behind a name")
        return name

    def _short(self) -> str:
        found = ""
        for part in self._string():
            found += part
            if len(found) > limits.PATH:
                raise self._broken("a name or a path is too long")
        return found

    def _string(self) -> Iterator[str]:
        """Yield the parts of a text whose opening quote was read, up to its closing one."""
        while True:
            self._fill()
            found = _SPECIAL.search(self._text, self._at)
            end = len(self._text) if found is None else found.start()
            if end > self._at:
                yield self._text[self._at : end]
            self._at = end
            if found is None:
                continue
            if found[0] == '"':
                self._at += 1
                return
            if found[0] != "\\":
                raise self._broken("a text has a control character")
            yield self._escapes()

    def _escapes(self) -> str:
        """Return what the escapes from here on stand for, at least one of them."""
        while len(self._text) - self._at < _LONGEST_ESCAPE and not self._ended:
            self._add()
        found = _ESCAPES.match(self._text, self._at)
        if found is None:
            raise self._broken("a text has an escape that is none, or half of a surrogate pair")
        self._at = found.end()
        return str(json.loads(f'"{found[0]}"'))

    def _peek(self) -> str:
        while True:
            self._fill()
            found = _OTHER.search(self._text, self._at)
            self._at = len(self._text) if found is None else found.start()
            if found is not None:
                return found[0]

    def _token(self, *, optional: bool = False) -> str | None:
        try:
            found = self._peek()
        except exceptions.ValidationError:
            if optional and self._ended:
                return None
            raise
        self._at += 1
        return found

    def _fill(self) -> None:
        """Make sure that there is unread text. Raises ValidationError at the end of the body."""
        while self._at == len(self._text):
            if self._ended:
                raise self._broken("it ends too early")
            self._add()

    def _add(self) -> None:
        """Add the next part of the body to the unread text, or note its end."""
        try:
            self._text, self._at = self._text[self._at :] + next(self._texts), 0
        except StopIteration:
            self._ended = True
        except UnicodeError:
            raise self._broken("it is not UTF-8") from None

    @staticmethod
    def _broken(reason: str) -> exceptions.ValidationError:
        return exceptions.ValidationError(detail=f"The body is not JSON: {reason}.")


def archive(texts: Iterable[str], *, encoded: bool) -> Iterator[bytes]:
    """The bytes of an archive from the parts of ``data``, in pieces of about PIECE bytes. Raises Base64Exception."""
    waiting, size = [], 0
    for part in _decoded(texts) if encoded else (text.encode() for text in texts):
        waiting.append(part)
        size += len(part)
        if size >= PIECE:
            yield b"".join(waiting)
            waiting, size = [], 0
    if size:
        yield b"".join(waiting)


def _decoded(texts: Iterable[str]) -> Iterator[bytes]:
    rest, ended = "", False
    for text in texts:
        whole = rest + "".join(text.split())
        if whole and ended:
            raise exceptions.Base64Exception(reason="something follows its end")
        cut = len(whole) - len(whole) % 4
        rest = whole[cut:]
        ended = ended or whole[:cut].endswith("=")
        yield _decode(whole[:cut])
    if rest:
        raise exceptions.Base64Exception(reason="its end is missing")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as exc:
        raise exceptions.Base64Exception(reason=str(exc)) from None
