# SPDX-License-Identifier: Apache-2.0
"""Upgrade the schema of the configured database, and read its revision.

There is no downgrade: restore the backup from before the upgrade. Revisions are numbers such as ``0017``, with which
the file names of their scripts begin. So every service can compare revisions at its start without alembic, which takes
11 MiB of memory.
"""

import pathlib
from typing import TYPE_CHECKING

import sqlalchemy as sa

from zun.common import exceptions
from zun.db import session

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER = pathlib.Path(__file__).parent / "migrations"
_version = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32)))


def upgrade(revision: str = "head") -> None:
    """Upgrade the database to ``revision``. A second call changes nothing.

    Each migration of a database in use is a transaction of its own: PostgreSQL keeps a changed table locked until the
    transaction ends. The function ``fill`` of a migration, if it has one, runs before that: it fills columns of many
    rows in short transactions, so that no row is locked for long.
    """
    from alembic import command

    with session.writer() as connection:  # a reader of SQLite would go on with the schema that it saw first
        found = _revision_of(connection)
    last = head() if revision == "head" else revision
    steps = [revision]
    if found is not None and last in _revisions():  # alembic tells what is wrong with an unknown one
        steps = [each for each in _revisions() if found < each <= last]
    for step in steps:
        if found is not None:
            _fill(step)
        with session.writer() as connection:
            command.upgrade(_config(connection), step)


def _fill(revision: str) -> None:
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(FOLDER)).get_revision(revision)
    fill = script and getattr(script.module, "fill", None)
    if fill:
        fill()


def generate(message: str, revision: str) -> None:
    """Write a new revision from the difference between the models and the database (for developers)."""
    from alembic import command

    with session.writer() as connection:
        command.revision(_config(connection), message=message, autogenerate=True, rev_id=revision)


def current() -> str | None:
    """Return the database's revision, for example ``0017``, or None for an empty database.

    Raises Misconfigured for the database of another program, for example upstream Zun, which has the same table.
    """
    with session.reader() as connection:
        return _revision_of(connection)


def _revision_of(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(_version.name):
        return None
    found: str | None = connection.execute(sa.select(_version.c.version_num)).scalar()
    if found is not None and not found.isdigit():
        raise exceptions.Misconfigured(
            f"[database] connection: the database has schema '{found}', which is of another program (perhaps upstream "
            "Zun). Name a database that only this service uses."
        )
    return found


def head() -> str:
    """Return the newest revision that this code knows."""
    return _revisions()[-1]


def _revisions() -> list[str]:
    return sorted(path.name.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*.py"))


def is_behind() -> bool:
    """Return whether the database needs an upgrade. A database of a later release needs none."""
    found = current()
    return found is None or found < head()


def _config(connection: sa.Connection) -> "Config":
    from alembic.config import Config

    made = Config()
    made.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    made.attributes["connection"] = connection
    return made
