# SPDX-License-Identifier: Apache-2.0
"""zun-db-manage: create and upgrade the database."""

from typing import Any

from oslo_config import cfg

from zun.cmd import program
from zun.db import migration, session


def _upgrade() -> None:
    before = migration.current()
    migration.upgrade(cfg.CONF.command.revision)
    where = session.engine().url.render_as_string(hide_password=True)
    print(f"upgraded {where} from {before or 'an empty database'} to {migration.current()}")


def _version() -> None:
    print(migration.current() or "empty: run 'zun-db-manage upgrade'")


def _revision() -> None:
    migration.generate(cfg.CONF.command.message, f"{int(migration.head()) + 1:04}")


def _add_commands(commands: Any) -> None:
    upgrade = commands.add_parser("upgrade", help="bring the schema to a revision, the newest unless one is given")
    upgrade.add_argument("revision", nargs="?", default="head")
    upgrade.set_defaults(run=_upgrade)
    commands.add_parser("version", help="print the schema's revision").set_defaults(run=_version)
    revision = commands.add_parser("revision", help="for developers: write a migration from a change of the models")
    revision.add_argument("message")
    revision.set_defaults(run=_revision)


@program.without_traceback
def main() -> None:
    option = cfg.SubCommandOpt("command", title="commands", dest="command", handler=_add_commands)
    cfg.CONF.register_cli_opt(option)
    conf = program.configure("zun-db-manage")
    program.open_database(conf)
    conf.command.run()


if __name__ == "__main__":
    main()
