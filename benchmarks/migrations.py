#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure each migration of the schema on a full database, while other connections read and write.

    benchmarks/migrations.py [--containers 100000] [--json FILE] [URL ...]

URLs are of databases that may be emptied: each run drops all tables. Without URLs an SQLite file is measured, and, with
ZUN_TEST_MYSQL_URL and ZUN_TEST_POSTGRES_URL set (``tools/services.sh env``), a new database on each of these servers.

Rows of containers and of their actions are written as soon as the first migration has made their tables, so that every
later migration has to carry them. During a migration one connection reads a container by its uuid and another changes
one's status, again and again. The longest wait of each says which locks the migration holds, and for how long.
"""

import argparse
import contextlib
import datetime
import itertools
import json
import os
import pathlib
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from alembic.script import ScriptDirectory

from zun.db import migration, session

AT_ONCE = 2000  # rows of one statement
NOW = datetime.datetime(2026, 1, 31)
CPUSET = {
    "generation": 7,
    "cpuset_cpus": "2-5",
    "cpuset_mems": "0",
    "cells": [{"id": 0, "cpus": "2-5", "memory_mib": 2048, "withheld": ""}],
}


@dataclass(frozen=True)
class Measured:
    """One migration: its seconds, and the longest wait in seconds of a reader and of a writer meanwhile."""

    revision: str
    about: str
    seconds: float
    read_wait: float
    write_wait: float


class Probe:
    """Repeats one short statement on a connection of its own, and keeps the longest time that it took."""

    def __init__(self, url: str, statement: str, containers: int) -> None:
        self.longest = 0.0
        self._engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        self._statement = sa.text(statement)
        self._containers = containers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._repeat)
        self._thread.start()

    def _repeat(self) -> None:
        with self._engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA busy_timeout = 600000")
            turn = 0
            while not self._stop.is_set():
                began = time.monotonic()
                connection.execute(self._statement, {"uuid": _uuid(turn % self._containers)}).close()
                self.longest = max(self.longest, time.monotonic() - began)
                turn += 7919
                self._stop.wait(0.002)

    def end(self) -> float:
        self._stop.set()
        self._thread.join()
        self._engine.dispose()
        return self.longest


def fill(containers: int, filled: set[str]) -> None:
    """Write so many containers, and three actions of each, if their tables exist and are not ``filled`` yet."""
    for name, per_container, make in (("containers", 1, _container), ("container_actions", 3, _action)):
        with session.reader() as connection:
            exists = sa.inspect(connection).has_table(name)
        if exists and name not in filled:
            _insert(name, (make(number // per_container) for number in range(containers * per_container)))
            filled.add(name)


def _uuid(number: int) -> str:
    return str(uuid.UUID(int=number + 1))


def _insert(name: str, rows: Iterator[dict[str, Any]]) -> None:
    while batch := list(itertools.islice(rows, AT_ONCE)):
        kinds = {key: sa.JSON() if isinstance(value, dict | list) else None for key, value in batch[0].items()}
        table = sa.table(name, *(sa.column(key, kind) for key, kind in kinds.items()))
        with session.writer() as connection:
            connection.execute(table.insert(), batch)


def _container(number: int) -> dict[str, Any]:
    return {
        "uuid": _uuid(number),
        "name": f"web-{number}",
        "project_id": f"project-{number % 100}",
        "user_id": "user",
        "created_at": NOW,
        "updated_at": NOW,
        "image": "registry.example.com/web:1.2",
        "cpu": 4.0,
        "cpu_policy": "dedicated",
        "memory": 2048,
        "disk": 10,
        "placement": {"numa_nodes": 1, "cpu_thread_policy": "require"},
        "request": {"hints": {}, "run": True},
        "command": ["serve", "--port", "80"],
        "environment": {f"VARIABLE_{index}": "value" * 4 for index in range(8)},
        "labels": {"tier": "front"},
        "interactive": False,
        "tty": False,
        "auto_remove": False,
        "auto_heal": False,
        "privileged": False,
        "exposed_ports": {"80/tcp": {"host_port": 40000}},
        "addresses": {"net": [{"addr": "10.224.1.2", "version": 4}]},
        "status": "Running",
        "status_reason": "The container runs.",
        "host": f"host-{number % 500}",
        "cpuset": CPUSET,
    }


def _action(number: int) -> dict[str, Any]:
    return {
        "container_uuid": _uuid(number),
        "action": "create",
        "request_id": f"req-{uuid.uuid4()}",
        "user_id": "user",
        "project_id": f"project-{number % 100}",
        "start_time": NOW,
    }


def measure(url: str, containers: int, say: Callable[[str], None] = print) -> list[Measured]:
    """Return what each migration after the first took on an empty database at ``url``."""
    session.configure(url)
    scripts = sorted(ScriptDirectory(str(migration.FOLDER)).walk_revisions(), key=lambda each: each.revision)
    migration.upgrade(scripts[0].revision)
    began = time.monotonic()
    filled: set[str] = set()
    fill(containers, filled)
    say(f"{containers} containers written in {time.monotonic() - began:.0f} s")
    found = []
    for script in scripts[1:]:
        probes = [
            Probe(url, "SELECT status FROM containers WHERE uuid = :uuid", containers),
            Probe(url, "UPDATE containers SET status = 'Running' WHERE uuid = :uuid", containers),
        ]
        began = time.monotonic()
        try:
            migration.upgrade(script.revision)
        finally:
            seconds = time.monotonic() - began
            read_wait, write_wait = (each.end() for each in probes)
        found.append(Measured(script.revision, script.doc or "", seconds, read_wait, write_wait))
        waits = f"reads wait {read_wait:6.2f} s   writes {write_wait:6.2f} s"
        say(f"{script.revision}  {seconds:7.2f} s   {waits}   {script.doc}")
        fill(containers, filled)
    session.dispose()
    return found


@contextlib.contextmanager
def databases() -> Iterator[dict[str, str]]:
    """Give an SQLite file and a new database on each known server, by name. They are removed at the end."""
    name, servers = f"zun_migrations_{os.getpid()}", {}
    for kind, variable in (("mariadb", "ZUN_TEST_MYSQL_URL"), ("postgresql", "ZUN_TEST_POSTGRES_URL")):
        if os.environ.get(variable):
            servers[kind] = sa.make_url(os.environ[variable])
    with tempfile.TemporaryDirectory() as folder:
        for url in servers.values():
            _administer(url, f"CREATE DATABASE {name}" + (" CHARACTER SET utf8mb4" if "mysql" in str(url) else ""))
        try:
            yield {"sqlite": f"sqlite:///{pathlib.Path(folder, 'zun.sqlite')}"} | {
                kind: url.set(database=name).render_as_string(hide_password=False) for kind, url in servers.items()
            }
        finally:
            for url in servers.values():
                _administer(url, f"DROP DATABASE {name}")


def _administer(url: sa.URL, statement: str) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text(statement))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("urls", nargs="*", metavar="URL")
    parser.add_argument("--containers", type=int, default=100_000)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if arguments.urls:
            targets = {sa.make_url(url).get_backend_name(): url for url in arguments.urls}
            for url in targets.values():
                engine = sa.create_engine(url)
                found = sa.MetaData()
                found.reflect(engine)
                found.drop_all(engine)
        else:
            targets = stack.enter_context(databases())
        results = {}
        for kind, url in targets.items():
            print(f"{kind}:")
            results[kind] = [asdict(each) for each in measure(url, arguments.containers)]
        if arguments.json:
            arguments.json.write_text(json.dumps({"containers": arguments.containers, "databases": results}, indent=1))


if __name__ == "__main__":
    main()
