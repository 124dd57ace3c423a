# SPDX-License-Identifier: Apache-2.0
"""Encrypt passwords of users in the database."""

import base64
import binascii
import os
import pathlib
import secrets
from collections.abc import Sequence

from cryptography import exceptions as crypto_exc
from cryptography import fernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from oslo_config import cfg

from zun.common import exceptions

KEY_CHARACTERS = 32
NEW_KEY_BYTES = 32

_BOUND = "v2:"  # what encrypts for an owner begins so; a Fernet token of an earlier release begins with "gAAAA"
_NONCE_BYTES = 12
_PURPOSE = b"zun: passwords of registries, v2"


def keys(conf: cfg.ConfigOpts) -> tuple[str, ...]:
    """Return the operator's keys, the encrypting one first. Raises Misconfigured, naming the option."""
    found = [("auth_encryption_key", conf.auth_encryption_key)] if conf.auth_encryption_key else []
    if conf.auth_encryption_key_file:
        option = "auth_encryption_key_file"
        try:
            lines = pathlib.Path(conf.auth_encryption_key_file).read_text().splitlines()
        except (OSError, UnicodeError) as exc:
            raise exceptions.Misconfigured(f"[DEFAULT] {option} cannot be read: {exc}") from None
        found += [(option, line.strip()) for line in lines if line.strip()]
    for option, key in found:
        if len(key) < KEY_CHARACTERS or not key.isascii():
            raise exceptions.Misconfigured(f"[DEFAULT] {option}: a key has at least {KEY_CHARACTERS} ASCII characters.")
    return tuple(key for _, key in found)


def make_key_file(path: str) -> None:
    """Write a new key, for its owner's eyes only, unless there is a file."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(NEW_KEY_BYTES) + "\n")


class Cipher:
    """Encrypt with the first key and decrypt with any.

    A ciphertext is bound to its ``owner``, the texts that say whose password it is, so it is worthless in another row.
    The form is AES-256-GCM under a key that HKDF-SHA256 derives from all characters of the configured key. Fernet
    tokens of earlier releases, which use the first 32 characters of a key and are bound to nothing, are still
    decrypted.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._bound = [AESGCM(_derived(key)) for key in keys]
        encoded = (base64.urlsafe_b64encode(key.encode()[:KEY_CHARACTERS]) for key in keys)
        self._fernet = fernet.MultiFernet([fernet.Fernet(key) for key in encoded]) if keys else None

    def encrypt(self, text: str, owner: Sequence[str]) -> str:
        """Encrypt a password of ``owner``. Raises InvalidValue if there is no key."""
        if not self._bound:
            raise exceptions.InvalidValue(
                "password: this installation has no key to keep it with. Ask the operator to set auth_encryption_key."
            )
        nonce = secrets.token_bytes(_NONCE_BYTES)
        hidden = self._bound[0].encrypt(nonce, text.encode(), _associated(owner))
        return _BOUND + base64.urlsafe_b64encode(nonce + hidden).decode()

    def decrypt(self, text: str, owner: Sequence[str]) -> str:
        """Return the password of ``owner``. Raises Conflict for what none of the keys encrypted for that owner."""
        if text.startswith(_BOUND):
            for key in self._bound:
                if (found := _opened(key, text, owner)) is not None:
                    return found
        elif self._fernet is not None:
            try:
                return self._fernet.decrypt(text.encode()).decode()
            except fernet.InvalidToken:
                pass
        raise exceptions.Conflict(
            "The password of the registry cannot be read with the keys of this service. Give every service that has "
            "keys the same auth_encryption_key, or give the registry its password again."
        )

    def is_current(self, text: str, owner: Sequence[str]) -> bool:
        """Return whether ``text`` is bound to ``owner`` under the first key, so that it need not be written anew."""
        return bool(self._bound) and text.startswith(_BOUND) and _opened(self._bound[0], text, owner) is not None


def _derived(key: str) -> bytes:
    return HKDF(hashes.SHA256(), length=32, salt=None, info=_PURPOSE).derive(key.encode())


def _associated(owner: Sequence[str]) -> bytes:
    """Return the owner's texts as one unambiguous value: each text with its length in front."""
    parts = [each.encode() for each in owner]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _opened(key: AESGCM, text: str, owner: Sequence[str]) -> str | None:
    """Return the password, or None if ``key`` did not encrypt it for ``owner``."""
    try:
        raw = base64.urlsafe_b64decode(text.removeprefix(_BOUND))
        return key.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _associated(owner)).decode()
    except (crypto_exc.InvalidTag, binascii.Error, ValueError):
        return None
