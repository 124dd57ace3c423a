# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common import exceptions
from zun.db import containers
from zun.db import registries as db
from zun.tests.unit.db.rows import container, together, values

pytestmark = pytest.mark.usefixtures("database")


def registry():
    return db.insert({"project_id": "demo", "user_id": "alice", "domain": "quay.io"})["uuid"]


def test_one_in_use_stays():
    uuid = registry()
    user = container(registry_id=uuid)["uuid"]
    with pytest.raises(exceptions.Conflict, match=user):
        db.destroy(uuid)
    containers.destroy(user)
    db.destroy(uuid)
    with pytest.raises(exceptions.RegistryNotFound):
        db.destroy(uuid)
    with pytest.raises(exceptions.RegistryNotFound):
        db.update(uuid, lambda row: {"name": "again"})


def test_no_container_of_one_that_is_gone():
    uuid = registry()
    db.destroy(uuid)
    with pytest.raises(exceptions.RegistryNotFound):
        containers.insert(values(registry_id=uuid))


def test_created_or_deleted_but_never_both():
    for _ in range(8):
        uuid = registry()

        def work(number, uuid=uuid):
            return db.destroy(uuid) if number == 0 else containers.insert(values(registry_id=uuid))["uuid"]

        removed, *created = together(4, work)
        made = [each for each in created if isinstance(each, str)]
        if removed is None:
            assert made == [] and {type(each) for each in created} == {exceptions.RegistryNotFound}
        else:
            assert isinstance(removed, exceptions.Conflict) and len(made) == 3


def test_nobody_changes_a_row_that_is_looked_at():
    uuid = registry()

    def work(number):
        return db.update(uuid, lambda row: {"name": (row["name"] or "n") + str(number)})["name"]

    names = together(6, work)
    assert sorted(map(len, names)) == [2, 3, 4, 5, 6, 7]


def test_no_change_writes_nothing():
    uuid = registry()
    assert db.update(uuid, lambda row: {})["updated_at"] is None
    assert db.update(uuid, lambda row: {"name": "web"})["updated_at"] is not None
