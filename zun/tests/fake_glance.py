# SPDX-License-Identifier: Apache-2.0
"""A small Glance over HTTP, for the answers that a real one does not give when a test wants them."""

import contextlib
import hashlib
import io
import json
import re
import tarfile
import threading
import time
import urllib.parse
import uuid as uuids
from collections.abc import Iterator
from typing import Any

from zun.tests.http_servers import Handler, Server, serving

PAGE = "<html><head><title>{0}</title></head><body><h1>{0}</h1>Something went wrong.</body></html>"


def saved(names: list[str] | None = None, config: str = "config", **more: bytes) -> bytes:
    """Return an archive as of ``docker save``, of one image with these names."""
    manifest = [{"Config": config, "RepoTags": names if names is not None else ["web:1"], "Layers": ["layer"]}]
    files = {config: b"{}", "layer": b"l" * 3000, **more, "manifest.json": json.dumps(manifest).encode()}
    return tar(files)


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class FakeGlance(Server):
    """``images`` by id, with their ``data``. A user's token is the name of the project; without one all are seen.
    Requests that begin with one of the ``expired`` tokens are answered with 401.

    ``failures`` are (method, pattern of the path, what happens), each for one request: a status with a page of HTML,
    or ``truncated``, ``corrupt``, ``dropped``, ``page`` (200 with HTML), ``slow`` (served when the caller of
    ``options`` has given up, if ``patience`` is 1 second).
    """

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.images: dict[str, dict[str, Any]] = {}
        self.data: dict[str, bytes] = {}
        self.failures: list[tuple[str, str, int | str]] = []
        self.requests: list[str] = []
        self.expired: set[str] = set()
        self.release = threading.Event()
        self.release.set()
        self.patience = 60

    @property
    def options(self) -> dict[str, Any]:
        """The configuration that uses this Glance, for ``own_conf`` and Cloud."""
        return {
            "image_driver_list": ["docker", "glance"],
            "glance__auth_type": "none",
            "glance__endpoint_override": self.url,
            "glance__status_code_retries": 0,
            "glance__connect_retries": 0,
            "glance__timeout": self.patience,
        }

    def add(self, name: str = "web", data: bytes | None = None, owner: str = "demo", **fields: Any) -> str:
        uuid = str(uuids.uuid4())
        self.images[uuid] = {
            "id": uuid, "name": name, "owner": owner, "visibility": "private", "tags": [], "status": "queued",
            "container_format": "docker", "disk_format": "raw", "size": None, "checksum": None,
            "os_hash_algo": None, "os_hash_value": None,
        }  # fmt: skip
        self.put(uuid, saved() if data is None else data)
        self.images[uuid] |= fields
        return uuid

    def put(self, uuid: str, data: bytes) -> None:
        self.data[uuid] = data
        checksum = hashlib.md5(data, usedforsecurity=False).hexdigest()
        hashed = {"os_hash_algo": "sha512", "os_hash_value": hashlib.sha512(data).hexdigest()}
        self.images[uuid] |= {"status": "active", "size": len(data), "checksum": checksum, **hashed}

    def fail(self, method: str, pattern: str, what: int | str, times: int = 1) -> None:
        self.failures += [(method, pattern, what)] * times

    def failure(self, method: str, path: str) -> int | str | None:
        for each in self.failures:
            if each[0] == method and re.search(each[1], path):
                self.failures.remove(each)
                return each[2]
        return None


class _Handler(Handler):
    server: FakeGlance
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer would take 40 ms

    def _serve(self) -> None:
        server, split = self.server, urllib.parse.urlsplit(self.path)
        body = self.body()
        if len(body) < int(self.headers.get("Content-Length") or 0):  # the caller broke off
            self.close_connection = True
            return
        expired = self.headers.get("X-Auth-Token") in server.expired
        server.requests.append(f"{self.command} {split.path}")
        server.release.wait(60)
        failure = 401 if expired else server.failure(self.command, split.path)
        if failure == "slow":
            time.sleep(2)
        if failure == "dropped":
            self.close_connection = True
            self.connection.close()
        elif failure == "page":
            self._answer(200, PAGE.format("Welcome").encode(), "text/html")
        elif isinstance(failure, int):
            self._answer(failure, PAGE.format(failure).encode() if failure != 204 else b"", "text/html")
        else:
            parts = split.path.removeprefix("/v2/images").strip("/").split("/")
            self._route(parts, dict(urllib.parse.parse_qsl(split.query)), body, failure)

    do_GET = do_POST = do_PUT = do_DELETE = _serve

    def _visible(self) -> dict[str, dict[str, Any]]:
        token = self.headers.get("X-Auth-Token")
        images = self.server.images
        return {
            uuid: image
            for uuid, image in images.items()
            if token in (None, "notused", image["owner"]) or image["visibility"] == "public"
        }

    def _route(self, parts: list[str], query: dict[str, str], body: bytes, failure: str | None) -> None:
        uuid, *what = parts
        images, server = self._visible(), self.server
        if self.command == "POST":
            given = json.loads(body)
            server.images[given["id"]] = {
                "owner": self.headers.get("X-Auth-Token"), "visibility": "shared", "status": "queued", **given,
            }  # fmt: skip
            self.answer(201, server.images[given["id"]])
        elif not uuid:
            wanted = {name: query[name] for name in ("name", "container_format") if name in query}
            operator, colon, value = wanted.get("name", "").partition(":")
            if colon and operator != "in":  # as the real one does
                return self._answer(400, PAGE.format("400 Bad Request").encode(), "text/html")
            if colon:
                wanted["name"] = value.strip('"')
            found = [each for each in images.values() if wanted.items() <= each.items()]
            start, size = int(query.get("marker", 0)), 2  # pages of two, so that every list of three has two
            more = start + size < len(found)
            following = {"next": f"/v2/images?{urllib.parse.urlencode({**query, 'marker': start + size})}"}
            self.answer(200, {"images": found[start : start + size], **(following if more else {})})
        elif uuid not in images:
            self._answer(404, PAGE.format("404 Not Found").encode(), "text/html")
        elif what == ["file"] and self.command == "PUT":
            server.put(uuid, body)
            self._answer(204)
        elif what == ["file"] and images[uuid]["status"] == "deactivated":
            self._answer(403, PAGE.format("403 Forbidden").encode(), "text/html")
        elif what == ["file"]:
            data = server.data.get(uuid, b"")
            if self.headers.get("Range"):
                self._answer(206, data[:1], "application/octet-stream")
            elif failure == "truncated":
                self._answer(200, data[: len(data) // 2], "application/octet-stream", length=len(data))
                self.close_connection = True
            else:
                data = data[:-1] + b"x" if failure == "corrupt" else data
                self._answer(200, data, "application/octet-stream")
        elif self.command == "DELETE":
            del server.images[uuid]
            self._answer(204)
        else:
            self.answer(200, images[uuid])

    def _answer(self, status: int, data: bytes = b"", kind: str | None = None, length: int | None = None) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        if status != 204:
            self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        self.wfile.write(data)


@contextlib.contextmanager
def running() -> Iterator[FakeGlance]:
    with serving(FakeGlance()) as server:
        try:
            yield server
        finally:
            server.release.set()
