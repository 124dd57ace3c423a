# SPDX-License-Identifier: Apache-2.0
"""zun-db-manage: create, upgrade and recover the database, change the key of passwords, compare Placement."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg

from zun.cmd import program
from zun.common import exceptions, naming, secrets
from zun.common.context import admin_context
from zun.db import compute_nodes, migration, registries, session
from zun.messaging import rpc
from zun.messaging.compute_api import ComputeAPI
from zun.placement.client import PlacementClient
from zun.placement.reporter import Reporter

RECOVER_SECONDS = 600  # a host with very many containers writes them one after the other


def _upgrade() -> None:
    before = migration.current()
    migration.upgrade(cfg.CONF.command.revision)
    where = session.engine().url.render_as_string(hide_password=True)
    print(f"upgraded {where} from {before or 'an empty database'} to {migration.current()}")


def _version() -> None:
    print(migration.current() or "empty: run 'zun-db-manage upgrade'")


def _revision() -> None:
    migration.generate(cfg.CONF.command.message, f"{int(migration.head()) + 1:04}")


@dataclass(frozen=True, slots=True)
class Rotated:
    """Uuids of registries by the outcome of the rotation: written, already current, or unreadable."""

    written: Sequence[str]
    current: Sequence[str]
    unreadable: Sequence[str]


def rotate(cipher: secrets.Cipher) -> Rotated:
    """Encrypt the password of each registry with the first key of ``cipher``, bound to its registry.

    Each row is a transaction of its own, and a row with a current password is left alone. ``rotate`` may run any number
    of times, also while the API writes.
    """
    written: list[str] = []
    current: list[str] = []
    unreadable: list[str] = []

    def anew(row: Mapping[str, Any]) -> dict[str, str]:
        owner = registries.owner(row)
        if row["password"] is None or cipher.is_current(row["password"], owner):
            return {}
        return {"password": cipher.encrypt(cipher.decrypt(row["password"], owner), owner)}

    for uuid in registries.with_passwords():
        try:
            before = registries.get(uuid)
            after = registries.update(uuid, anew)
        except exceptions.RegistryNotFound:  # deleted meanwhile
            continue
        except exceptions.Conflict:
            unreadable.append(uuid)
        else:
            (current if before["password"] == after["password"] else written).append(uuid)
    return Rotated(written, current, unreadable)


def _rotate_registry_key() -> None:
    keys = secrets.keys(cfg.CONF)
    if not keys:
        raise exceptions.Misconfigured("[DEFAULT] auth_encryption_key and auth_encryption_key_file are unset.")
    done = rotate(secrets.Cipher(keys))
    print(f"passwords of registries: {len(done.written)} encrypted anew, {len(done.current)} had the first key already")
    if done.unreadable:
        raise SystemExit(
            f"{len(done.unreadable)} cannot be read with the configured keys and stay as they are. Configure the key "
            f"that encrypted them, or have the password given again, of registries {', '.join(done.unreadable)}"
        )


def _reporters() -> Iterator[tuple[str, Reporter]]:
    """Yield a reporter of each host, or of the one that was named. It knows nothing of the hardware."""
    client = PlacementClient.from_conf(cfg.CONF)
    only = cfg.CONF.command.only
    for host in [only] if only else sorted(compute_nodes.generations()):
        yield host, Reporter(host, client, lambda name, own: ())


def _placement_audit() -> None:
    found = 0
    told: set[str] = set()
    for host, reporter in _reporters():
        differing, nobodys = reporter.audit()
        found += len(differing) + len(nobodys - told)
        for uuid in sorted(differing):
            print(f"{host}: container {uuid} has other allocations than it holds")
        for uuid in sorted(nobodys - told):  # each host of a disk pool finds what is left of the pool
            print(f"{host}: consumer {uuid} is not a container of this host or of its disk pool")
        told |= nobodys
    if found:
        raise SystemExit(f"{found} differences: 'zun-db-manage placement heal' ends those of containers")
    print("Placement has what the containers hold")


def _placement_heal() -> None:
    left = 0
    for host, reporter in _reporters():
        differences = reporter.heal()
        left += len(differences.refused)
        for uuid, reason in sorted(differences.refused.items()):
            print(f"{host}: container {uuid}: {reason}")
        for uuid in sorted(differences.foreign):
            print(f"{host}: consumer {uuid} is another service's and stays")
    if left:
        raise SystemExit(f"{left} allocations could not be written")
    print("Placement has what the containers hold")


def _placement_sync() -> None:
    changed = sum(reporter.sync_aggregates() for _, reporter in _reporters())
    print(f"aggregates of {changed} providers were set")


def recover(api: ComputeAPI, hosts: Sequence[str], *, dry_run: bool) -> int:
    """Have ``hosts`` give lost containers their rows back, print what each did, and return how many stay lost.

    A host that does not answer counts as one.
    """
    left = 0
    for host in hosts:
        try:
            outcomes = api.recover(admin_context(), host, dry_run=dry_run)
        except exceptions.ZunError as exc:
            left += 1
            print(f"{host}: {exc}")
            continue
        for found in outcomes:
            what = naming.called(found["name"], found["uuid"])
            if found["reason"] is not None:
                left += 1
                print(f"{host}: container {what} is not in the database: {found['reason']}")
            else:
                print(f"{host}: container {what} {'would have' if dry_run else 'has'} its row again")
        if not outcomes:
            print(f"{host}: the database has every container")
    return left


def _recover() -> None:
    only = cfg.CONF.command.only
    known = sorted(compute_nodes.generations())
    if only and only not in known:
        raise SystemExit(f"Host {only} is not in the database: start its zun-compute. Known: {', '.join(known) or '-'}")
    if not known:
        raise SystemExit("No host is in the database yet: start zun-compute on every host, then recover.")
    transport = rpc.get_transport(cfg.CONF)
    try:
        api = ComputeAPI(transport, timeout=RECOVER_SECONDS, retries=1)
        left = recover(api, [only] if only else known, dry_run=cfg.CONF.command.dry_run)
    finally:
        transport.cleanup()
    if left:
        raise SystemExit(f"{left} containers or hosts need a hand; the lines above say what to do")


def _add_placement(commands: Any) -> None:
    actions = (
        ("audit", _placement_audit, "print where allocations differ from what containers hold"),
        ("heal", _placement_heal, "write the allocations that differ, and remove those that containers left"),
        ("sync", _placement_sync, "set the aggregates of hosts on their providers"),
    )
    for name, run, told in actions:
        action = commands.add_parser(name, help=told)
        action.add_argument("only", nargs="?", metavar="HOST", help="this host only")
        action.set_defaults(run=run)


def _add_commands(commands: Any) -> None:
    upgrade = commands.add_parser("upgrade", help="bring the schema to a revision, the newest unless one is given")
    upgrade.add_argument("revision", nargs="?", default="head", help="of the schema, for example 0015")
    upgrade.set_defaults(run=_upgrade)
    commands.add_parser("version", help="print the schema's revision").set_defaults(run=_version)
    commands.add_parser(
        "rotate-registry-key", help="encrypt every password of a registry with the first configured key"
    ).set_defaults(run=_rotate_registry_key)
    recover = commands.add_parser("recover", help="write the rows of containers that hosts run and the database lost")
    recover.add_argument("only", nargs="?", metavar="HOST", help="this host only")
    recover.add_argument("--dry-run", action="store_true", help="print what would be written, and write nothing")
    recover.set_defaults(run=_recover)
    placement = commands.add_parser("placement", help="compare OpenStack Placement with the claims of all hosts")
    _add_placement(placement.add_subparsers(dest="action", required=True))
    revision = commands.add_parser("revision", help="for developers: write a migration from a change of the models")
    revision.add_argument("message", help="the first line of the migration")
    revision.set_defaults(run=_revision)


def register_commands(conf: cfg.ConfigOpts) -> None:
    conf.register_cli_opt(cfg.SubCommandOpt("command", title="commands", dest="command", handler=_add_commands))


@program.without_traceback
def main() -> None:
    register_commands(cfg.CONF)
    conf = program.configure("zun-db-manage")
    program.open_database(conf)
    conf.command.run()


if __name__ == "__main__":
    main()
