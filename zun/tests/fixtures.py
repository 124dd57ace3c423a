# SPDX-License-Identifier: Apache-2.0
"""Real parts for tests: a database, contexts, rows."""

import contextlib
import dataclasses
import inspect
import itertools
import json
import logging
import pathlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa
from oslo_config import cfg
from oslo_utils import uuidutils

from zun import conf as zun_conf
from zun.common.context import RequestContext
from zun.db import containers as db
from zun.db import models, session
from zun.objects import Container

T = TypeVar("T")
_names = itertools.count(1)


class LastingDatabase:
    """An SQLite database that each test finds empty: a new copy of ``tables``, a file with an empty database.

    The engines last, because SQLAlchemy keeps with an engine what it has compiled. With engines of its own, a test
    would spend more time on compiling its statements than on running them. The file has a new name for each test: a
    thread that a test left may still have the old one open, and SQLite finds the files of its log by name.

    Each test has views of the engines of its own: listeners of its statements end with it, and a thread that waited for
    its turn to write and connects when its test has ended is refused. Its connection is closed before the next test.
    """

    def __init__(self, tables: pathlib.Path) -> None:
        self._tables = tables
        self._numbers = itertools.count()
        self._path = tables
        self._engines: Any = None

    @contextlib.contextmanager
    def empty(self) -> Iterator[str]:
        """In the block the process is connected to the database, which is empty at first. Give its URL."""
        session.dispose()
        path = self._tables.with_name(f"{next(self._numbers)}.sqlite")
        url = f"sqlite:///{shutil.copy(self._tables, path)}"
        self._path = path  # from now on whoever connects, a thread that an earlier test left, too, finds the whole file
        if self._engines is not None:
            self._engines.reader.dispose()
            self._engines.writer.dispose()
        else:
            session.configure(url)
            self._engines = session._engines
            for each in (self._engines.reader, self._engines.writer):
                sa.event.listen(each, "do_connect", self._to_present, insert=True)
                sa.event.listen(each, "engine_connect", self._refuse_others)
        session._engines = dataclasses.replace(
            self._engines,
            reader=self._engines.reader.execution_options(test=path),
            writer=self._engines.writer.execution_options(test=path),
            write_lock=threading.Lock(),
        )
        try:
            yield url
        finally:
            session.dispose()
            for end in ("", "-wal", "-shm"):
                path.with_name(f"{path.name}{end}").unlink(missing_ok=True)

    def _to_present(self, _dialect: Any, _record: Any, arguments: list[Any], _parameters: Any) -> None:
        arguments[0] = str(self._path)

    def _refuse_others(self, connection: sa.Connection) -> None:
        if (test := connection.get_execution_options()["test"]) != self._path or session._engines is None:
            connection.close()  # or the error would keep it, and the pool of writers has only one
            raise RuntimeError(f"the test with the database {test} has ended")


@pytest.fixture(scope="session")
def lasting_database(tmp_path_factory: pytest.TempPathFactory) -> LastingDatabase:
    path = tmp_path_factory.mktemp("tables") / "zun.sqlite"
    session.configure(f"sqlite:///{path}")
    models.metadata.create_all(session.engine())
    session.dispose()
    return LastingDatabase(path)


@pytest.fixture
def database(lasting_database: LastingDatabase) -> Iterator[str]:
    """An empty database, configured for the process. Gives its URL."""
    with lasting_database.empty() as url:
        yield url


@pytest.fixture
def context() -> RequestContext:
    """A member of project ``demo``."""
    return RequestContext(user_id="alice", project_id="demo", roles=["member"])


@pytest.fixture
def admin() -> RequestContext:
    return RequestContext(user_id="root", project_id="admin", roles=["admin"])


def own_conf(**options: Any) -> cfg.ConfigOpts:
    """Options of this test's own (``group__option``), with nothing of this machine in them."""
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf([], project="zun-test", default_config_files=[], default_config_dirs=[])
    for name, value in options.items():
        group, _, option = name.rpartition("__")
        conf.set_override(option, value, group=group or None)
    return conf


def written_conf(folder: pathlib.Path, text: str) -> cfg.ConfigOpts:
    """Options of a file ``zun.conf`` with ``text``, which is written into ``folder``. Nothing of this machine is read.
    """
    file = folder / "zun.conf"
    file.write_text(text)
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf([], project="zun-test", default_config_files=[str(file)], default_config_dirs=[])
    return conf


@contextlib.contextmanager
def notifications() -> Iterator[list[dict[str, Any]]]:
    """Give the list of notifications that the driver ``log`` writes in the block."""
    heard: list[dict[str, Any]] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(json.loads(record.getMessage()))  # type: ignore[method-assign]
    logger = logging.getLogger("oslo.messaging.notification")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield heard
    finally:
        logger.removeHandler(handler)


def new_container(context: RequestContext, *, nets: Sequence[str] = (), **fields: Any) -> Container:
    """A container row, shared and small unless ``fields`` say otherwise, in the networks ``nets``."""
    values: dict[str, Any] = {
        "uuid": uuidutils.generate_uuid(),
        "name": f"container-{next(_names)}",
        "project_id": context.project_id,
        "user_id": context.user_id,
        "image": "zun-demo",
        "cpu": 1.0,
        "memory": 64,
        "command": ["sleep", "1000"],
        "request": {"run": True},
        **fields,
    }
    container = Container(context, **values)
    container.create(None, [{"network": each} for each in nets])
    return container


def wait_for(what: Callable[[], T], seconds: float = 60) -> T:
    """The first true answer of ``what``, asked again and again; AssertionError after ``seconds``."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not (answer := what()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {inspect.getsource(what).strip()}"
        pause.wait(0.01)
    return answer


def becomes(container: Container, **expected: Any) -> Any:
    """Wait until the row of the container has these, and return the row."""
    return wait_for(lambda: (row := db.get(container.uuid)) and expected.items() <= row.items() and row)


class AtOnce(Executor):
    """An executor that runs the work inside ``submit``."""

    def submit(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(work(*arguments, **named))
        return done
