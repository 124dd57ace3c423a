# SPDX-License-Identifier: Apache-2.0
"""The schema's versions: bring the configured database to one, or tell which one it has.

There is no way down: restore the backup taken before the upgrade. Revisions are numbered, and a script's file name
begins with its number, so that every service can compare versions at its start without loading alembic: 11 MiB of
memory that only an upgrade needs.
"""

import pathlib
from typing import TYPE_CHECKING

import sqlalchemy as sa

from zun.db import session

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER = pathlib.Path(__file__).parent / "migrations"
_version = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32)))


def upgrade(revision: str = "head") -> None:
    """Bring the database to ``revision``. Running it again does nothing."""
    from alembic import command

    with session.writer() as connection:
        command.upgrade(_config(connection), revision)


def generate(message: str, revision: str) -> None:
    """Write a new revision from the difference between the models and the database (for developers)."""
    from alembic import command

    with session.writer() as connection:
        command.revision(_config(connection), message=message, autogenerate=True, rev_id=revision)


def current() -> str | None:
    """The database's revision, None for an empty one."""
    with session.reader() as connection:
        if not sa.inspect(connection).has_table(_version.name):
            return None
        return connection.execute(sa.select(_version.c.version_num)).scalar()


def head() -> str:
    """The newest revision that this code knows."""
    return max(path.name.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*.py"))


def is_behind() -> bool:
    """Whether the database wants an upgrade to this code's revision. Newer ones are for a later release's code."""
    found = current()
    return found is None or found < head()


def _config(connection: sa.Connection) -> "Config":
    from alembic.config import Config

    made = Config()
    made.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    made.attributes["connection"] = connection
    return made
