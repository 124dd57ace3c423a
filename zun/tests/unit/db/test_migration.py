# SPDX-License-Identifier: Apache-2.0
import datetime
import re
import types

import pytest
import sqlalchemy as sa
from alembic import autogenerate
from alembic.runtime import migration as alembic_migration
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions
from zun.db import compute_nodes, containers, images, migration, models, quotas, services, session
from zun.tests.unit.db.rows import CPUSET, container, node

pytestmark = pytest.mark.usefixtures("empty_database")


def differences():
    """Between the models and the database, as alembic sees them."""
    with session.reader() as connection:
        context = alembic_migration.MigrationContext.configure(connection, opts={"compare_type": True})
        return autogenerate.compare_metadata(context, models.metadata)


def test_upgrade_matches_models_and_is_idempotent():
    """The migration also tells the current revision, and whether the database is behind."""
    assert (migration.current(), migration.is_behind()) == (None, True)
    assert differences() != []
    migration.upgrade()
    assert differences() == []
    row = container(status="Running", host="h1", cpuset=CPUSET)
    assert (migration.current(), migration.is_behind()) == (migration.head(), False)
    migration.upgrade()
    migration.upgrade(migration.head())
    assert containers.get(row["uuid"]) == row
    assert not migration.is_behind() and differences() == []


LAST_OF_1_0 = "0018"
CONTRACTS = re.compile(
    r"drop_column|drop_table|rename_table|new_column_name|(?<!existing_)nullable=False(?!.*server_default)"
)


def test_later_migrations_only_add():
    """Services of the release before go on working with the new schema. Remove what nobody reads one release later."""
    later = [path for path in (migration.FOLDER / "versions").glob("[0-9]*.py") if path.name[:4] > LAST_OF_1_0]
    wrong = {}
    for path in later:
        upgrade = path.read_text().partition("def upgrade")[2]
        # The columns of a new table may be of any kind: nobody else writes its rows.
        altered = re.sub(r"op\.create_table\(.*?\n    \)\n", "", upgrade, flags=re.DOTALL)
        if found := CONTRACTS.findall(altered):
            wrong[path.name] = found
    assert wrong == {}


def test_the_database_of_another_program_is_refused():
    with session.writer() as connection:
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(sa.text("INSERT INTO alembic_version VALUES ('a251f1f61217')"))
    for read in (migration.current, migration.is_behind):
        with pytest.raises(exceptions.Misconfigured, match="schema 'a251f1f61217', which is of another program"):
            read()


def test_the_migrated_tables_work():
    migration.upgrade()
    node("h1")
    row = container()
    assert containers.claim(row["uuid"], "h1", {"cpuset": CPUSET}) == (1, None, False)
    assert compute_nodes.usage() == {"h1": compute_nodes.HostUsage(1, 1.0, 64, 0)}
    services.heartbeat("h1", "zun-compute", "nova")
    services.heartbeat("h1", "zun-compute", "nova")
    assert services.get("h1", "zun-compute")["report_count"] == 1


def test_whatever_the_reason_it_can_be_written_down():
    migration.upgrade()
    row = container()
    containers.update(row["uuid"], {"status": "Error", "status_reason": "нет: 🐳" * 5000})
    assert containers.get(row["uuid"])["status_reason"] == "нет: 🐳" * 5000


def test_what_must_be_there_once_is_there_once_after_a_migration():
    migration.upgrade()
    with session.reader() as connection:
        found = sa.inspect(connection)
        unique = {
            table.name: {tuple(each["column_names"]) for each in found.get_unique_constraints(table.name)}
            for table in models.metadata.sorted_tables
        }
    assert unique == {
        "compute_nodes": {("uuid",), ("hostname",)},
        "containers": {("uuid",)},
        "container_sets": {("uuid",)},
        "container_groups": {("uuid",), ("project_id", "name")},
        "aggregates": {("uuid",), ("name",)},
        "explanations": set(),
        "layers": set(),
        "service_keys": set(),
        "services": {("host", "binary")},
        "quotas": {("project_id", "resource")},
        "quota_classes": {("class_name", "resource")},
        "quota_locks": set(),
        "registries": {("uuid",)},
        "images": {("uuid",), ("pulled",)},
        "image_grants": set(),
        "container_actions": set(),
        "container_action_events": set(),
        "console_tokens": set(),
        "networks": {("uuid",)},
        "network_ports": {
            ("uuid",),
            ("container_uuid", "network_uuid"),
            ("ipv4", "network_uuid"),
            ("ipv6", "network_uuid"),
        },
        "volumes": {("uuid",), ("project_id", "name")},
    }


def test_images_that_were_pulled_before_are_not_pulled_twice():
    migration.upgrade("0005")
    old = {"project_id": "p", "host": "h1", "repo": "web", "tag": "1"}
    with session.writer() as connection:
        names = sa.table("images", *(sa.column(name) for name in (*old, "uuid", "created_at")))
        connection.execute(names.insert().values(**old, uuid="u-1", created_at=datetime.datetime(2026, 1, 31)))
    migration.upgrade()
    with pytest.raises(exceptions.ImageAlreadyExists):
        images.insert(old)
    assert images.get("u-1")["local_name"] == ""


def test_what_was_there_before_is_counted_after_the_upgrade():
    """Ports and CPUs that are kept idle have columns of their own, volumes a uuid, and ceilings are counted anew."""
    migration.upgrade("0014")
    now = datetime.datetime(2026, 1, 31)
    row = {"name": "web", "project_id": "p", "created_at": now, "image": "demo", "cpu": 1.0, "cpu_policy": "dedicated"}
    row |= {"memory": 64, "placement": "{}", "request": "{}", "status": "Running", "interactive": False, "tty": False}
    row |= {"auto_remove": False, "auto_heal": False, "privileged": False, "disk": 0}
    cells = '{"cells": [{"id": 0, "cpus": "0", "withheld": "1-3,8"}, {"id": 1, "withheld": ""}]}'
    rows = [
        row | {"uuid": "one", "cpuset": cells, "exposed_ports": '{"80/tcp": {}, "81/tcp": {}}', "kind": "container"},
        row | {"uuid": "two", "cpuset": '{"cells": "by hand"}', "exposed_ports": None, "kind": "capsule"},
    ]
    with session.writer() as connection:
        for each in rows:
            values = {
                name: sa.literal_column(f"'{value}'") if name in JSON and value else value
                for name, value in each.items()
            }
            connection.execute(sa.table("containers", *map(sa.column, each)).insert().values(**values))
        volume = {"project_id": "p", "name": "data", "host": "h1", "created_at": now}
        connection.execute(sa.table("volumes", *map(sa.column, volume)).insert().values(**volume))
        ceiling = {"project_id": "p", "containers": 1, "cpu": 1.0}
        connection.execute(sa.table("quota_locks", *map(sa.column, ceiling)).insert().values(**ceiling))
    migration.upgrade()
    with session.reader() as connection:
        found = {each["uuid"]: each for each in session.rows(connection, sa.select(models.containers))}
        (kept,) = session.rows(connection, sa.select(models.volumes))
        (locks,) = session.rows(connection, sa.select(models.quota_locks))
    assert [(found[uuid]["port_count"], found[uuid]["withheld_cpu"]) for uuid in ("one", "two")] == [(2, 4), (0, 0)]
    assert (len(kept["uuid"]), kept["deleting"]) == (36, False)
    assert set(locks.values()) == {"p", None}
    assert {name: quotas.usage("p")[name] for name in ("cpu", "ports", "volumes")} == {
        "cpu": 6,
        "ports": 2,
        "volumes": 1,
    }


JSON = ("placement", "request", "cpuset", "exposed_ports")
GPUS = {"devices": [{"name": "gpu", "count": 2, "matches": []}]}


def test_many_containers_are_counted_a_few_at_a_time(monkeypatch):
    """Each few in a transaction of their own, and after a failure from there on."""
    migration.upgrade()
    ports = {"80/tcp": {}}
    uuids = [container(exposed_ports=ports, placement=GPUS)["uuid"] for _ in range(5)]
    uuids.append(container()["uuid"])
    with session.writer() as connection:
        connection.execute(models.containers.update().values(port_count=0, device_count=0))
    script = ScriptDirectory(str(migration.FOLDER)).get_revision("0022").module
    monkeypatch.setattr(script, "AT_ONCE", 2)
    monkeypatch.setattr(ScriptDirectory, "get_revision", lambda *_: types.SimpleNamespace(module=script))
    opened, writer, limit = [], session.writer, 2

    def failing():
        opened.append(counts(uuids))
        if len(opened) > limit:
            raise OSError("the server went away")
        return writer()

    monkeypatch.setattr(session, "writer", failing)
    with pytest.raises(OSError):
        script.fill()
    limit = 100
    script.fill()
    none, full = (0, 0), (1, 2)
    assert opened[:4] == [[full] * done + [none] * (6 - done) for done in (0, 2, 4, 4)]
    assert counts(uuids) == [full] * 5 + [none]


def counts(uuids):
    with session.reader() as connection:
        found = {each["uuid"]: each for each in session.rows(connection, sa.select(models.containers))}
    return [(found[uuid]["port_count"], found[uuid]["device_count"]) for uuid in uuids]


def test_a_fill_leaves_what_is_counted():
    migration.upgrade("0021")
    uuid = uuidutils.generate_uuid()
    with session.writer() as connection:  # with the columns of then
        names = [each["name"] for each in sa.inspect(connection).get_columns("containers")]
        columns = [models.containers.c[name] for name in names if name != "id"]
        then = sa.table("containers", *(sa.column(column.name, column.type) for column in columns))
        texts = {column.name: "" for column in columns if isinstance(column.type, sa.String)}
        needed = {column.name: 0 for column in columns if not column.nullable and not column.server_default}
        values = {"uuid": uuid, "created_at": timeutils.utcnow(), "placement": {}, "request": {}, "device_count": 3}
        values |= {"exposed_ports": {"80/tcp": {}}} | dict.fromkeys(("interactive", "tty", "auto_remove"), False)
        values |= dict.fromkeys(("auto_heal", "privileged"), False)
        connection.execute(then.insert().values({**needed, **texts, **values}))
    migration.upgrade()
    assert counts([uuid]) == [(0, 3)]


def test_each_migration_is_a_transaction_of_its_own(monkeypatch):
    """On a database in use, where PostgreSQL would keep a changed table locked until the last migration."""
    migration.upgrade("0014")
    opened, writer = [], session.writer
    monkeypatch.setattr(session, "writer", lambda: opened.append(migration.current()) or writer())
    migration.upgrade("0017")
    assert sorted(set(opened)) == ["0014", "0015", "0016"]


def test_an_unknown_revision_is_an_error():
    migration.upgrade("0014")
    with pytest.raises(CommandError, match="9999"):
        migration.upgrade("9999")
