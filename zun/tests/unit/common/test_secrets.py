# SPDX-License-Identifier: Apache-2.0
import base64
import stat

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from zun.common import exceptions, secrets
from zun.common.secrets import Cipher
from zun.tests.fixtures import own_conf

OLD, NEW = "o" * 32, "n" * 40


OWNER = ("uuid-1", "demo", "quay.io", "me")
OTHERS = [
    pytest.param(("uuid-2", "demo", "quay.io", "me"), id="row"),
    pytest.param(("uuid-1", "other", "quay.io", "me"), id="project"),
    pytest.param(("uuid-1", "demo", "evil.io", "me"), id="domain"),
    pytest.param(("uuid-1", "demo", "quay.io", ""), id="username"),
    pytest.param(("uuid-1", "demoquay.io", "", "me"), id="the-same-letters"),
]


def fernet(key, password):
    """A password as earlier releases encrypted it."""
    return Fernet(base64.urlsafe_b64encode(key.encode()[:32])).encrypt(password.encode()).decode()


def test_there_and_back():
    hidden = Cipher([OLD]).encrypt("pa55wörd", OWNER)
    assert "pa55" not in hidden and hidden != Cipher([OLD]).encrypt("pa55wörd", OWNER)
    assert Cipher([OLD]).decrypt(hidden, OWNER) == "pa55wörd"


@pytest.mark.parametrize("other", OTHERS)
def test_a_password_is_worthless_in_another_row(other):
    hidden = Cipher([OLD]).encrypt("secret", OWNER)
    with pytest.raises(exceptions.Conflict, match="password again"):
        Cipher([OLD]).decrypt(hidden, other)
    assert not Cipher([OLD]).is_current(hidden, other)


@given(st.text(), st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_only_the_same_owner_decrypts(password, owner, other):
    cipher = Cipher([OLD])
    hidden = cipher.encrypt(password, owner)
    assert cipher.decrypt(hidden, owner) == password
    assert cipher.is_current(hidden, other) == (owner == other)


@given(st.integers(0, 60), st.integers(1, 255))
def test_a_changed_ciphertext_is_refused(place, change):
    hidden = Cipher([OLD]).encrypt("secret", OWNER)
    raw = bytearray(base64.urlsafe_b64decode(hidden.removeprefix("v2:")))
    raw[place % len(raw)] ^= change
    with pytest.raises(exceptions.Conflict):
        Cipher([OLD]).decrypt("v2:" + base64.urlsafe_b64encode(raw).decode(), OWNER)


@pytest.mark.parametrize("text", ["", "v2:", "v2:AAAA", "v2:!", "v2:\xe9", "gAAAA", "plain"])
def test_what_is_no_ciphertext_is_refused(text):
    with pytest.raises(exceptions.Conflict):
        Cipher([OLD]).decrypt(text, OWNER)


def test_a_token_of_an_earlier_release_is_read():
    hidden = fernet(NEW, "secret")
    assert Cipher([OLD, NEW]).decrypt(hidden, OWNER) == "secret"
    assert not Cipher([NEW]).is_current(hidden, OWNER)


def test_a_new_key_goes_before_the_old_one():
    hidden = Cipher([OLD]).encrypt("secret", OWNER)
    both = Cipher([NEW, OLD])
    assert both.decrypt(hidden, OWNER) == "secret"
    assert (both.is_current(hidden, OWNER), Cipher([OLD, NEW]).is_current(hidden, OWNER)) == (False, True)
    assert Cipher([NEW]).decrypt(both.encrypt("secret", OWNER), OWNER) == "secret"


@pytest.mark.parametrize("keys", [[], [NEW]])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_key_that_is_not_there(keys, earlier):
    hidden = fernet(OLD, "secret") if earlier else Cipher([OLD]).encrypt("secret", OWNER)
    with pytest.raises(exceptions.Conflict, match="auth_encryption_key"):
        Cipher(keys).decrypt(hidden, OWNER)


def test_without_keys_nothing_is_kept():
    with pytest.raises(exceptions.InvalidValue, match="auth_encryption_key"):
        Cipher([]).encrypt("secret", OWNER)


def test_all_characters_of_a_key_count():
    hidden = Cipher([OLD]).encrypt("secret", OWNER)
    with pytest.raises(exceptions.Conflict):
        Cipher([OLD + "x"]).decrypt(hidden, OWNER)


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
    assert len(bytes.fromhex(key)) == 32
