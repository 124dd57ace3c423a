# SPDX-License-Identifier: Apache-2.0
"""Keeps passwords of users unreadable in the database."""

import base64
import os
import pathlib
import secrets
from collections.abc import Sequence

from cryptography import fernet
from oslo_config import cfg

from zun.common import exceptions

KEY_CHARACTERS = 32


def keys(conf: cfg.ConfigOpts) -> tuple[str, ...]:
    """The operator's keys, the one that encrypts first. Raises Misconfigured, naming the option."""
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
        file.write(secrets.token_hex(KEY_CHARACTERS // 2) + "\n")


class Cipher:
    """Encrypts with the first key and decrypts with any. Of a key the first 32 characters count."""

    def __init__(self, keys: Sequence[str]) -> None:
        encoded = (base64.urlsafe_b64encode(key.encode()[:KEY_CHARACTERS]) for key in keys)
        self._fernet = fernet.MultiFernet([fernet.Fernet(key) for key in encoded]) if keys else None

    def encrypt(self, text: str) -> str:
        """Raises InvalidValue where there is no key."""
        if self._fernet is None:
            raise exceptions.InvalidValue(
                "password: this installation has no key to keep it with. Ask the operator to set auth_encryption_key."
            )
        return self._fernet.encrypt(text.encode()).decode()

    def decrypt(self, text: str) -> str:
        """Raises Conflict for what none of the keys encrypted."""
        try:
            if self._fernet is not None:
                return self._fernet.decrypt(text.encode()).decode()
        except fernet.InvalidToken:
            pass
        raise exceptions.Conflict(
            "The password of the registry cannot be read with the keys of this host. Set the same auth_encryption_key "
            "on every host, or give the registry its password again."
        )
