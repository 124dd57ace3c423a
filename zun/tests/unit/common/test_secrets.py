# SPDX-License-Identifier: Apache-2.0
import stat

import pytest

from zun.common import exceptions, secrets
from zun.common.secrets import Cipher
from zun.tests.fixtures import own_conf

OLD, NEW = "o" * 32, "n" * 40


def test_there_and_back():
    hidden = Cipher([OLD]).encrypt("pa55wörd")
    assert "pa55" not in hidden and hidden != Cipher([OLD]).encrypt("pa55wörd")
    assert Cipher([OLD]).decrypt(hidden) == "pa55wörd"


def test_a_new_key_goes_before_the_old_one():
    hidden = Cipher([OLD]).encrypt("secret")
    both = Cipher([NEW, OLD])
    assert both.decrypt(hidden) == "secret"
    assert Cipher([NEW]).decrypt(both.encrypt("secret")) == "secret"


@pytest.mark.parametrize("keys", [[], [NEW]])
def test_a_key_that_is_not_there(keys):
    hidden = Cipher([OLD]).encrypt("secret")
    with pytest.raises(exceptions.Conflict, match="auth_encryption_key"):
        Cipher(keys).decrypt(hidden)


def test_without_keys_nothing_is_kept():
    with pytest.raises(exceptions.InvalidValue, match="auth_encryption_key"):
        Cipher([]).encrypt("secret")


def test_32_characters_count():
    assert Cipher([OLD + "x"]).decrypt(Cipher([OLD]).encrypt("secret")) == "secret"


def test_keys_of_the_own_conf(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"{NEW}\n\n {OLD} \n")
    assert secrets.keys(own_conf()) == ()
    assert secrets.keys(own_conf(auth_encryption_key=OLD)) == (OLD,)
    assert secrets.keys(own_conf(auth_encryption_key_file=str(file))) == (NEW, OLD)
    assert secrets.keys(own_conf(auth_encryption_key="z" * 32, auth_encryption_key_file=str(file))) == (
        "z" * 32,
        NEW,
        OLD,
    )


def test_a_file_of_no_text_has_no_keys(tmp_path):
    file = tmp_path / "keys"
    file.write_bytes(b"\xff" * 40)
    with pytest.raises(exceptions.Misconfigured, match="auth_encryption_key_file cannot be read"):
        secrets.keys(own_conf(auth_encryption_key_file=str(file)))


@pytest.mark.parametrize("options", [{"auth_encryption_key": "short"}, {"auth_encryption_key_file": "/nowhere/keys"}])
def test_keys_that_are_none(options):
    with pytest.raises(exceptions.Misconfigured, match="encryption"):
        secrets.keys(own_conf(**options))


def test_a_key_is_made_once_and_for_its_owner(tmp_path):
    file = tmp_path / "keys"
    secrets.make_key_file(str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (key,) = secrets.keys(own_conf(auth_encryption_key_file=str(file)))
    secrets.make_key_file(str(file))
    assert secrets.keys(own_conf(auth_encryption_key_file=str(file))) == (key,)
    assert Cipher([key]).decrypt(Cipher([key]).encrypt("secret")) == "secret"
