# SPDX-License-Identifier: Apache-2.0
"""Certificates of a test's own authority."""

import datetime
import ipaddress
import os
import pathlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Authority:
    """An authority that signs certificates of servers and clients, valid for a day. ``pem`` is its own certificate."""

    def __init__(self, name: str = "authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        usage = dict.fromkeys(
            ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "encipher_only", "decipher_only"), False,
        )  # fmt: skip
        self._certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, address: str = "127.0.0.1") -> tuple[bytes, bytes]:
        """Return certificate and key (PEM) of ``name``, whom clients reach at ``address`` or as localhost."""
        key = ec.generate_private_key(ec.SECP256R1())
        places = [x509.IPAddress(ipaddress.ip_address(address)), x509.DNSName("localhost")]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        ours = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = (
            _builder(_named(name), self._name, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(ours, critical=False)
            .add_extension(x509.SubjectAlternativeName(places), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
        return made.public_bytes(pem), key.private_bytes(pem, serialization.PrivateFormat.PKCS8, none)


def common_name(der: bytes) -> str:
    """Return whose certificate ``der`` is."""
    subject = x509.load_der_x509_certificate(der).subject
    return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def put(path: pathlib.Path, data: bytes) -> pathlib.Path:
    """Replace the file at once, as a program that renews certificates does."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.chmod(0o600)
    os.replace(new, path)
    return path


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now, public = datetime.datetime.now(datetime.UTC), key.public_key()
    return x509.CertificateBuilder(
        issuer, subject, public, x509.random_serial_number(),
        now - datetime.timedelta(minutes=5), now + datetime.timedelta(days=1),
        [x509.Extension(x509.SubjectKeyIdentifier.oid, False, x509.SubjectKeyIdentifier.from_public_key(public))],
    )  # fmt: skip
