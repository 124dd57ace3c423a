# SPDX-License-Identifier: Apache-2.0
import datetime

import pytest
import sqlalchemy as sa
from alembic import autogenerate
from alembic.runtime import migration as alembic_migration

from zun.common import exceptions
from zun.db import compute_nodes, containers, images, migration, models, services, session
from zun.tests.unit.db.rows import CPUSET, container, node

pytestmark = pytest.mark.usefixtures("empty_database")


def differences():
    """Between the models and the database, as alembic sees them."""
    with session.reader() as connection:
        context = alembic_migration.MigrationContext.configure(connection, opts={"compare_type": True})
        return autogenerate.compare_metadata(context, models.metadata)


def test_an_upgrade_gives_what_the_models_say_tells_where_it_stands_and_does_nothing_twice():
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
        "container_groups": {("uuid",), ("project_id", "name")},
        "aggregates": {("uuid",), ("name",)},
        "explanations": set(),
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
        "volumes": {("project_id", "name")},
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
