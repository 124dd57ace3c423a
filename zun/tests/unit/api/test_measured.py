# SPDX-License-Identifier: Apache-2.0
import pytest
from prometheus_client import REGISTRY

from zun.api.measured import Measured

COUNT = "zun_api_request_seconds_count"


def answering(status):
    def app(environ, start_response):
        start_response(status, [])
        return [b"body"]

    return app


def counted(method, collection, status):
    labels = {"method": method, "collection": collection, "status": status}
    return REGISTRY.get_sample_value(COUNT, labels) or 0


@pytest.mark.parametrize(
    ("method", "path", "status", "labels"),
    [
        ("GET", "/v1/containers", "200 OK", ("GET", "containers", "200")),
        ("POST", "/v1/containers/web/start", "409 Conflict", ("POST", "containers", "409")),
        ("GET", "/v1/anything", "404 Not Found", ("GET", "other", "404")),
        ("GET", "/containers", "404 Not Found", ("GET", "other", "404")),
        ("BREW", "/v1/hosts", "405 Method Not Allowed", ("other", "hosts", "405")),
    ],
)
def test_labels(method, path, status, labels):
    before = counted(*labels)
    app = Measured(answering(status), ["containers", "hosts"])
    seen = []
    assert app({"REQUEST_METHOD": method, "PATH_INFO": path}, lambda *words: seen.append(words)) == [b"body"]
    assert counted(*labels) == before + 1 and seen == [(status, [], None)]


def test_a_request_that_raises():
    def broken(environ, start_response):
        raise RuntimeError

    before = counted("GET", "hosts", "500")
    with pytest.raises(RuntimeError):
        Measured(broken, ["hosts"])({"REQUEST_METHOD": "GET", "PATH_INFO": "/v1/hosts"}, lambda *_: None)
    assert counted("GET", "hosts", "500") == before + 1


def test_requests_under_way():
    seen = []

    def app(environ, start_response):
        seen.append(REGISTRY.get_sample_value("zun_api_requests_under_way"))
        raise RuntimeError

    for _ in range(2):
        with pytest.raises(RuntimeError):
            Measured(app, ["hosts"])({"REQUEST_METHOD": "GET", "PATH_INFO": "/v1/hosts"}, lambda *_: None)
    assert seen == [1, 1]
