# SPDX-License-Identifier: Apache-2.0
"""A large file into a container and out again, by streams, so that whoever holds it in memory is not the test.

``ZUN_TEST_ARCHIVE_MIB`` is its size, 64 unless said otherwise.
"""

import base64
import contextlib
import hashlib
import os
import pathlib
import tarfile
import time
from collections.abc import Collection, Iterator

from zun.tests.integration.programs import Api

SIZE = int(os.environ.get("ZUN_TEST_ARCHIVE_MIB", "64")) << 20
SECONDS = 300 + (SIZE >> 20)  # a test hangs after this
MEMBER = "large"
_BLOCK = 1 << 20
_NOISE = hashlib.shake_256(b"noise").digest(_BLOCK - 8)


def content() -> Iterator[bytes]:
    """Blocks of which no two are alike, and which nothing compresses."""
    for number in range(SIZE // _BLOCK):
        yield number.to_bytes(8, "big") + _NOISE


def content_digest() -> str:
    digest = hashlib.sha256()
    for block in content():
        digest.update(block)
    return digest.hexdigest()


def body() -> Iterator[bytes]:
    """Yield the body that a client sends to put_archive."""
    yield b'{"data": "'
    rest = b""
    for piece in _tar():
        whole = rest + piece
        cut = len(whole) - len(whole) % 3
        rest = whole[cut:]
        yield base64.b64encode(whole[:cut])
    yield base64.b64encode(rest) + b'"}'


def _tar() -> Iterator[bytes]:
    info = tarfile.TarInfo(MEMBER)
    info.size = SIZE
    yield info.tobuf(tarfile.GNU_FORMAT)
    yield from content()
    yield bytes(-SIZE % 512 + 1024)


class Answer:
    """A file whose content is the base64 text in the answer of get_archive."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._text, self._bytes = chunks, b"", b""
        while b'"data": "' not in self._text:
            self._text += next(chunks)
        self._text = self._text.partition(b'"data": "')[2]

    def read(self, size: int) -> bytes:
        while len(self._bytes) < size and (chunk := next(self._chunks, b"")):
            whole = (self._text + chunk).partition(b'"')[0]
            cut = len(whole) - len(whole) % 4
            self._text = whole[cut:]
            self._bytes += base64.b64decode(whole[:cut])
        found, self._bytes = self._bytes[:size], self._bytes[size:]
        return found


def there_and_back(api: Api, uuid: str) -> tuple[float, float]:
    """Put the file to ``/`` of the container and get it again. Gives the seconds that each took."""
    began = time.monotonic()
    headers = {"Content-Type": "application/json"}
    reply = api.request("POST", f"/containers/{uuid}/put_archive?path=/", data=body(), headers=headers)
    assert reply.status_code == 200, reply.text
    put = time.monotonic() - began
    expected = content_digest()
    command = f"/containers/{uuid}/execute?command=sha256sum%20/{MEMBER}"
    assert api.request("POST", command).json()["output"].split()[0] == expected
    began = time.monotonic()
    with api.request("GET", f"/containers/{uuid}/get_archive?path=/{MEMBER}", stream=True) as reply:
        digest = hashlib.sha256()
        with tarfile.open(fileobj=Answer(reply.iter_content(1 << 16)), mode="r|") as tar:  # type: ignore[call-overload]
            member = tar.next()
            assert (member.name, member.size) == (MEMBER, SIZE)
            file = tar.extractfile(member)
            while piece := file.read(1 << 16):
                digest.update(piece)
    assert digest.hexdigest() == expected
    return put, time.monotonic() - began


class Growth:
    """By process, how many MiB its largest resident memory was over what it had at first."""

    def __init__(self, pids: Collection[int]) -> None:
        self.mib: dict[int, float] = {}
        self._before = {pid: _status(pid, "VmRSS") for pid in pids}

    @classmethod
    @contextlib.contextmanager
    def measured(cls, *pids: int) -> Iterator["Growth"]:
        for pid in pids:
            pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")  # forget the largest so far
        found = cls(pids)
        yield found
        found.mib = {pid: _status(pid, "VmHWM") - before for pid, before in found._before.items()}


def _status(pid: int, name: str) -> float:
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024
