# SPDX-License-Identifier: Apache-2.0
"""The schema's versions: bring the configured database to one, or tell which one it has.

There is no way down: restore the backup taken before the upgrade.
"""

import pathlib

import sqlalchemy as sa
from alembic import command, config, script
from alembic.runtime import migration

from zun.db import session

FOLDER = pathlib.Path(__file__).parent / "migrations"


def _config(connection: sa.Connection | None = None) -> config.Config:
    made = config.Config()
    made.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    if connection is not None:
        made.attributes["connection"] = connection
    return made


def upgrade(revision: str = "head") -> None:
    """Bring the database to ``revision``. Running it again does nothing."""
    with session.writer() as connection:
        command.upgrade(_config(connection), revision)


def current() -> str | None:
    """The database's revision, None for an empty one."""
    with session.reader() as connection:
        return migration.MigrationContext.configure(connection).get_current_revision()


def head() -> str:
    """The newest revision that this code knows."""
    return str(script.ScriptDirectory.from_config(_config()).get_current_head())


def is_current() -> bool:
    return current() == head()


def generate(message: str) -> None:
    """Write a new revision from the difference between the models and the database (for developers)."""
    with session.writer() as connection:
        command.revision(_config(connection), message=message, autogenerate=True)
