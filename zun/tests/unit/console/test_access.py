# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.console.access import granted, origin_refusal
from zun.objects import ConsoleToken

TOKENS = {
    "t1": ConsoleToken(container_uuid="c1", exec_id=None),
    "t2": ConsoleToken(container_uuid="c1", exec_id="e2"),
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/?token=t1&uuid=c1", TOKENS["t1"], id="its container"),
        pytest.param("/any/path?uuid=c1&token=t1", TOKENS["t1"], id="behind a reverse proxy"),
        pytest.param("/?token=t2&uuid=c1&exec_id=e2", TOKENS["t2"], id="its command"),
        pytest.param("/?token=t1&uuid=c2", None, id="another container"),
        pytest.param("/?token=t1", None, id="no container"),
        pytest.param("/?token=t1&uuid=c1&exec_id=e2", None, id="a command with the container's token"),
        pytest.param("/?token=t2&uuid=c1", None, id="the container with a command's token"),
        pytest.param("/?token=t2&uuid=c1&exec_id=e3", None, id="another command"),
        pytest.param("/?token=t3&uuid=c1", None, id="unknown token"),
        pytest.param("/?uuid=c1", None, id="no token"),
        pytest.param("/", None, id="nothing"),
    ],
)
def test_granted(path, expected):
    assert granted(path, TOKENS.get) == expected


WS, WSS = "ws://console.example:6784/", "wss://console.example/"


@pytest.mark.parametrize(
    ("origin", "host", "forwarded", "base_url", "fits"),
    [
        pytest.param(None, "console.example:6784", None, WS, True, id="no browser"),
        pytest.param("http://console.example:6784", "console.example:6784", None, WS, True, id="the stock client"),
        pytest.param("http://console.example", "console.example:6784", None, WS, True, id="another port"),
        pytest.param("http://dashboard.example", "console.example", None, WS, True, id="allowed"),
        pytest.param("http://evil.example", "console.example", None, WS, False, id="a stranger"),
        pytest.param("http://dashboard.example.evil", "console.example", None, WS, False, id="nearly allowed"),
        pytest.param("https://console.example", "console.example", None, WSS, True, id="tls"),
        pytest.param("http://console.example", "console.example", None, WSS, False, id="plain page, tls here"),
        pytest.param("https://console.example", "console.example", None, WS, False, id="tls page, plain here"),
        pytest.param("https://console.example", "console.example", "https", WS, True, id="forwarded"),
        pytest.param("http://console.example", "console.example", "https", WS, False, id="forwarded, plain page"),
        pytest.param("http://[::1]:6784", "[::1]:6784", None, WS, True, id="ipv6"),
        pytest.param("null", "console.example", None, WS, False, id="an opaque origin"),
        pytest.param("http://console.example", None, None, WS, False, id="no host header"),
    ],
)
def test_origin(origin, host, forwarded, base_url, fits):
    refusal = origin_refusal(origin, host, forwarded, base_url, ["dashboard.example"])
    assert (refusal is None) == fits
