# SPDX-License-Identifier: Apache-2.0
"""Certificates that change while a server runs."""

import datetime
import os
import socket
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from zun.common.tls import ServerContext


def pair(name):
    """Return certificate and key of ``name``, as PEM."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    until = now + datetime.timedelta(days=1)
    made = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number(), now, until)
    private = serialization.PrivateFormat.PKCS8
    pem = serialization.Encoding.PEM
    return made.sign(key, hashes.SHA256()).public_bytes(pem), key.private_bytes(
        pem, private, serialization.NoEncryption()
    )


def put(path, data):
    """Replace the file, as who renews certificates does."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    os.replace(new, path)


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
        found = x509.load_der_x509_certificate(connected.getpeercert(binary_form=True))
    thread.join()
    return found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value


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
