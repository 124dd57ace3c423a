# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.api import client_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.7", "192.0.2.7"),
        (" 192.0.2.7:4711 ", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ('"[2001:db8::1]:4711"', "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("fe80::1%\nforged", "fe80::1"),
        ("", None),
        ("unknown", None),
        ("_hidden", None),
        ("192.0.2.7, 192.0.2.8", None),
        ("192.0.2.7\nforged", None),
    ],
)
def test_what_is_an_address(text, address):
    assert client_address.read(text) == address


@given(st.text())
def test_any_text_is_an_address_or_none(text):
    found = client_address.read(text)
    assert found is None or client_address.read(found) == found


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        pytest.param({"HTTP_X_FORWARDED_FOR": "192.0.2.7"}, "192.0.2.7", id="one"),
        pytest.param({"HTTP_X_FORWARDED_FOR": "127.0.0.1, 192.0.2.7"}, "192.0.2.7", id="the-client-wrote-one-too"),
        pytest.param({"HTTP_FORWARDED": "for=127.0.0.1, for=192.0.2.7;proto=https"}, "192.0.2.7", id="forwarded"),
        pytest.param({"HTTP_FORWARDED": 'proto=https;For="[2001:db8::1]:99"'}, "2001:db8::1", id="forwarded-ipv6"),
        pytest.param(
            {"HTTP_X_FORWARDED_FOR": "192.0.2.7", "HTTP_FORWARDED": "for=127.0.0.1"}, "192.0.2.7", id="both-headers"
        ),
        pytest.param({"HTTP_X_FORWARDED_FOR": "127.0.0.1, unknown"}, None, id="unknown"),
        pytest.param({"HTTP_FORWARDED": "proto=https"}, None, id="no-address"),
        pytest.param({}, None, id="no-header"),
    ],
)
def test_the_nearest_proxy_is_believed(headers, address):
    assert client_address.told_by_proxy(headers) == address
