# SPDX-License-Identifier: Apache-2.0
"""Every database there is: SQLite always, a server where the environment has the URL of one.

``ZUN_TEST_MYSQL_URL`` and ``ZUN_TEST_POSTGRES_URL`` name a user who may create databases; the tests use databases of
their own there and drop them at the end. ``ZUN_REQUIRE_MYSQL=1`` and ``ZUN_REQUIRE_POSTGRES=1`` make a missing server
a failure.
"""

import contextlib
import os
import uuid

import pytest
import sqlalchemy as sa

from zun.db import models, session
from zun.tests.unit.db.rows import clear

URLS = {"mysql": "ZUN_TEST_MYSQL_URL", "postgresql": "ZUN_TEST_POSTGRES_URL"}
REQUIRED = {kind for kind, variable in URLS.items() if os.environ.get(variable.replace("TEST", "REQUIRE")[:-4]) == "1"}
BACKENDS = ["sqlite", *(name for name, variable in URLS.items() if os.environ.get(variable) or name in REQUIRED)]


def _server(kind):
    """The URL of the server of this kind."""
    url = os.environ.get(URLS[kind])
    if not url:
        pytest.fail(f"{URLS[kind]} is not set, but a server of that kind is required; see tools/services.sh")
    return url


@contextlib.contextmanager
def _created(url):
    """A new database on the server of ``url``, until it is dropped."""
    name = f"zun_test_{uuid.uuid4().hex[:16]}"
    server = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with server.connect() as connection:
            # As where nobody thought of it: every column that may hold any letter must say so itself.
            letters = " CHARACTER SET latin1" if server.dialect.name == "mysql" else ""
            connection.execute(sa.text(f"CREATE DATABASE {name}{letters}"))
        try:
            yield sa.make_url(url).set(database=name).render_as_string(hide_password=False)
        finally:
            with server.connect() as connection:
                connection.execute(sa.text(f"DROP DATABASE {name}"))
    finally:
        server.dispose()


@contextlib.contextmanager
def _configured(url):
    session.configure(url)
    try:
        yield
    finally:
        session.dispose()


@pytest.fixture(params=BACKENDS)
def empty_database(request, tmp_path):
    """A database without tables, configured for the process. Gives the name of its kind."""
    sqlite = request.param == "sqlite"
    place = contextlib.nullcontext(f"sqlite:///{tmp_path}/zun.sqlite") if sqlite else _created(_server(request.param))
    with place as url, _configured(url):
        yield request.param


@pytest.fixture(scope="session")
def lasting_databases():
    """Kind -> the URL of a database with tables; making one takes a server longer than most tests."""
    with contextlib.ExitStack() as stack:
        urls = {}

        def get(kind):
            if kind not in urls:
                urls[kind] = stack.enter_context(_created(_server(kind)))
                with _configured(urls[kind]):
                    models.metadata.create_all(session.engine())
            return urls[kind]

        yield get


@pytest.fixture(params=BACKENDS)
def database(request, lasting_database):
    """A database with empty tables, configured for the process. Gives the name of its kind."""
    if request.param == "sqlite":
        with lasting_database.empty():
            yield request.param
        return
    with _configured(request.getfixturevalue("lasting_databases")(request.param)):
        clear()
        yield request.param
