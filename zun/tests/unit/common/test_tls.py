# SPDX-License-Identifier: Apache-2.0
"""Certificates that change while a server runs."""

import socket
import ssl
import threading

import pytest

from zun.common.tls import ServerContext
from zun.tests.certificates import Authority, common_name, put

pair = Authority().issue


@pytest.fixture
def files(tmp_path):
    return tmp_path / "cert.pem", tmp_path / "key.pem"


def served(context):
    """Return the name in the certificate that a new connection gets."""
    here, there = socket.socketpair()

    def answer():
        with context.wrap_socket(there, server_side=True):
            pass

    thread = threading.Thread(target=answer)
    thread.start()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    with client.wrap_socket(here) as connected:
        found = connected.getpeercert(binary_form=True)
    thread.join()
    return common_name(found)


def test_a_new_certificate_counts_at_the_next_connection(files):
    cert, key = files
    for path, data in zip(files, pair("one"), strict=True):
        put(path, data)
    context = ServerContext.of(str(cert), str(key))
    assert served(context) == "one"
    new_cert, new_key = pair("two")
    put(cert, new_cert)
    assert served(context) == "one"  # the key is still the old one
    put(key, new_key)
    assert served(context) == "two"
    cert.unlink()
    assert served(context) == "two"


def test_a_certificate_without_its_key_is_refused(files):
    cert, key = files
    put(cert, pair("one")[0])
    put(key, pair("two")[1])
    with pytest.raises(OSError, match="mismatch"):
        ServerContext.of(str(cert), str(key))
