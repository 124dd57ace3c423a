# SPDX-License-Identifier: Apache-2.0
"""zun-status: ``zun-status upgrade check`` tells before an upgrade what would stop the services of this release."""

import sys

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from zun.cmd import program
from zun.common import exceptions, secrets
from zun.conf import misspelt
from zun.db import migration, registries
from zun.scheduler.host_table import HostTable

Code = upgradecheck.Code
Result = upgradecheck.Result


class Checks(upgradecheck.UpgradeCommands):
    """The checks, with the configuration and the database that the services use."""

    def _schema(self) -> upgradecheck.Result:
        """Compare the schema of the database with the one of this release."""
        found, ours = migration.current(), migration.head()
        if migration.is_behind():
            return Result(
                Code.FAILURE,
                f"The database has schema {found or 'none'}, this release needs {ours}. Run its 'zun-db-manage "
                "upgrade' before its services start.",
            )
        if found != ours:
            return Result(Code.WARNING, f"The database has schema {found}, newer than {ours} of this release.")
        return Result(Code.SUCCESS)

    def _options(self) -> upgradecheck.Result:
        """Find options that no program reads."""
        ignored = list(misspelt.misspelt(cfg.CONF))
        return Result(Code.WARNING, "\n".join(ignored)) if ignored else Result(Code.SUCCESS)

    def _passwords(self) -> upgradecheck.Result:
        """Decrypt the password of every registry with the configured keys."""
        if migration.is_behind():
            return Result(Code.WARNING, "Not checked: the database has an older schema.")
        cipher, unreadable = secrets.Cipher(secrets.keys(cfg.CONF)), []
        for uuid in registries.with_passwords():
            row = registries.get(uuid)
            try:
                cipher.decrypt(row["password"], registries.owner(row))
            except exceptions.Conflict:
                unreadable.append(uuid)
        if unreadable:
            return Result(
                Code.FAILURE,
                "auth_encryption_key is not the one that encrypted the passwords of these registries: "
                f"{', '.join(unreadable)}. Configure that key, or have the passwords given again.",
            )
        return Result(Code.SUCCESS)

    def _hosts(self) -> upgradecheck.Result:
        """Read the rows of every host as a scheduler does."""
        if migration.is_behind():
            return Result(Code.WARNING, "Not checked: the database has an older schema.")
        table = HostTable(booking_seconds=0)
        table.refresh()
        wrong = [f"Host {name} gets no containers: {reason}." for name, reason in table.unusable().items()]
        if wrong:
            return Result(Code.WARNING, "\n".join([*wrong, "See 'cannot be read' in the page Troubleshooting."]))
        return Result(Code.SUCCESS)

    def _shares(self) -> upgradecheck.Result:
        """Find resource classes that are for shared devices on one host and for whole devices on another."""
        if migration.is_behind():
            return Result(Code.WARNING, "Not checked: the database has an older schema.")
        table = HostTable(booking_seconds=0)
        table.refresh()
        holders: dict[tuple[str, bool], str] = {}
        for host in table.hosts():
            for device in host.topology.devices:
                holders.setdefault((device.counted_as, device.shared > 1), host.hostname)
        mixed = [
            f"Resource class {name} is for shared devices on host {holders[name, True]} and for whole devices on host "
            f"{holders[name, False]}: who asks for the class gets either. Give the shared ones another class in "
            "[devices] device_spec."
            for name in sorted({name for name, _ in holders})
            if {(name, True), (name, False)} <= holders.keys()
        ]
        return Result(Code.WARNING, "\n".join(mixed)) if mixed else Result(Code.SUCCESS)

    _upgrade_checks = (
        ("Schema of the database", _schema),
        ("Options of configuration files", _options),
        ("Passwords of registries", _passwords),
        ("Rows of hosts", _hosts),
        ("Classes of shared devices", _shares),
    )


@program.without_traceback
def main() -> None:
    checks = Checks()
    upgradecheck.register_cli_options(cfg.CONF, checks)
    conf = program.configure("zun-status")
    program.open_database(conf)
    sys.exit(upgradecheck.run(conf))


if __name__ == "__main__":
    main()
