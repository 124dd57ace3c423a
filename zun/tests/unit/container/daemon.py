# SPDX-License-Identifier: Apache-2.0
"""A Docker daemon in this process, which answers what a test wants."""

import json
import pathlib
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zun.tests import http_servers

OLD = (24, 43)


class Daemon(socketserver.ThreadingUnixStreamServer):
    """A Docker that speaks the minor ``versions`` of its API, first and last, and has the log driver ``logs``.

    Tests put the status and the JSON or the bytes of an answer into ``answers``, by the end of the request's path.
    Of a list of answers each is given once.
    """

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, path: pathlib.Path, versions: tuple[int, int]) -> None:
        self.versions = versions
        self.logs = "json-file"
        self.answers: dict[str, tuple[int, Any] | list[tuple[int, Any]]] = {}
        self.asked: list[str] = []
        self.bodies: list[Any] = []
        super().__init__(str(path), _Answers)

    @property
    def url(self) -> str:
        return f"unix://{self.server_address!s}"

    def refusal(self, path: str) -> str | None:
        first, last = self.versions
        words = path.split("/")[1]
        asked = int(words.removeprefix("v1.")) if words.startswith("v1.") else last
        if asked < first:
            return (
                f"client version 1.{asked} is too old. Minimum supported API version is 1.{first}, please upgrade "
                "your client to a newer version"
            )
        if asked > last:
            return f"client version 1.{asked} is too new. Maximum supported API version is 1.{last}"
        return None


class _Answers(http_servers.Handler):
    protocol_version = "HTTP/1.1"
    server: Daemon

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        if (refusal := self.server.refusal(path)) is not None:
            self._answer(400, {"message": refusal})
        elif (answer := self._wanted(path)) is not None:
            self._answer(*answer)
        elif path.endswith("/version"):
            self._answer(200, {"ApiVersion": f"1.{self.server.versions[1]}"})
        elif path.endswith("/info"):
            self._answer(200, {"LoggingDriver": self.server.logs})
        elif path.endswith(("/networks", "/containers/json")):
            self._answer(200, [])
        else:
            self._answer(200, {})

    def do_POST(self) -> None:
        body = self.body()
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        if (refusal := self.server.refusal(path)) is not None:
            self._answer(400, {"message": refusal})
            return
        if (answer := self._wanted(path)) is not None:
            self._answer(*answer)
            return
        self.server.bodies.append(json.loads(body))
        if path.endswith("/networks/create"):
            self.server.answers.pop(f"/networks/{self.server.bodies[-1]['Name']}", None)  # it exists now
        self._answer(201, {"Id": "made"})

    def do_DELETE(self) -> None:
        self._answer(*(self._wanted(self.path.partition("?")[0]) or (200, {})))

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return super().body()
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def do_PUT(self) -> None:
        self.close_connection = True
        self._answer(400, {"message": self.server.refusal(self.path) or "no tar"})

    def _wanted(self, path: str) -> tuple[int, Any] | None:
        answer = next((answer for end, answer in self.server.answers.items() if path.endswith(end)), None)
        if isinstance(answer, list):
            return answer.pop(0) if answer else None
        return answer

    def _answer(self, status: int, content: Any) -> None:
        if not isinstance(content, bytes):
            self.answer(status, content)
            return
        self.send_response(status)  # a stream
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content) if content else b"0\r\n\r\n")


@contextmanager
def serving(path: pathlib.Path, versions: tuple[int, int] = OLD) -> Iterator[Daemon]:
    with http_servers.serving(Daemon(path, versions)) as server:
        yield server
