# SPDX-License-Identifier: Apache-2.0
"""The key of the passwords in the database, changed."""

import base64

import pytest
from cryptography.fernet import Fernet
from oslo_utils import uuidutils

from zun.cmd import db_manage
from zun.common.secrets import Cipher
from zun.db import registries as db
from zun.tests.fixtures import own_conf

OLD, NEW, LOST = "o" * 32, "n" * 64, "l" * 32

pytestmark = pytest.mark.usefixtures("database")


def registry(password=None, key=OLD, *, earlier=False):
    """``earlier``: as an earlier release encrypted it."""
    row = {"uuid": uuidutils.generate_uuid(), "project_id": "demo", "domain": "quay.io", "username": "me"}
    if earlier:
        row["password"] = Fernet(base64.urlsafe_b64encode(key.encode()[:32])).encrypt(password.encode()).decode()
    elif password is not None:
        row["password"] = Cipher([key]).encrypt(password, db.owner(row))
    return db.insert(row)["uuid"]


def passwords(key, *uuids):
    return [Cipher([key]).decrypt(row["password"], db.owner(row)) for row in map(db.get, uuids)]


def test_every_password_gets_the_first_key():
    registry()
    old, earlier, new = registry("a"), registry("b", earlier=True), registry("c", NEW)
    cipher = Cipher([NEW, OLD])
    assert db_manage.rotate(cipher) == db_manage.Rotated([old, earlier], [new], [])
    assert passwords(NEW, old, earlier, new) == ["a", "b", "c"]
    assert db_manage.rotate(cipher) == db_manage.Rotated([], [old, earlier, new], [])


def test_a_token_of_an_earlier_release_is_bound():
    uuid = registry("a", earlier=True)
    assert db_manage.rotate(Cipher([OLD])).written == [uuid]
    assert Cipher([OLD]).is_current(db.get(uuid)["password"], db.owner(db.get(uuid)))


def test_what_cannot_be_read_stays_and_is_told(monkeypatch, capsys):
    lost, old = registry("a", LOST), registry("b")
    before = db.get(lost)
    monkeypatch.setattr(db_manage.cfg, "CONF", own_conf(auth_encryption_key=OLD))
    with pytest.raises(SystemExit, match=f"1 cannot be read .*{lost}"):
        db_manage._rotate_registry_key()
    assert "0 encrypted anew, 1 had the first key already" in capsys.readouterr().out
    assert db.get(lost) == before and passwords(OLD, old) == ["b"]
