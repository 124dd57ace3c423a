# SPDX-License-Identifier: Apache-2.0
"""Real parts for tests: a database, contexts, rows."""

import contextlib
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
from oslo_config import cfg
from oslo_utils import uuidutils

from zun import conf as zun_conf
from zun.common.context import RequestContext
from zun.db import models, session
from zun.objects import Container

T = TypeVar("T")
_names = itertools.count(1)


@pytest.fixture(scope="session")
def empty_tables(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An SQLite file to be copied: that takes a fifth of the time of making the tables."""
    path = tmp_path_factory.mktemp("tables") / "zun.sqlite"
    session.configure(f"sqlite:///{path}")
    models.metadata.create_all(session.engine())
    session.dispose()
    return path


@pytest.fixture
def database(tmp_path: pathlib.Path, empty_tables: pathlib.Path) -> Iterator[str]:
    """An empty database of this test's own, configured for the process. Gives its URL."""
    url = f"sqlite:///{shutil.copyfile(empty_tables, tmp_path / 'zun.sqlite')}"
    session.configure(url)
    yield url
    session.dispose()


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


class AtOnce(Executor):
    """An executor that runs the work inside ``submit``."""

    def submit(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(work(*arguments, **named))
        return done
