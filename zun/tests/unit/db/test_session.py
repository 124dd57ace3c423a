# SPDX-License-Identifier: Apache-2.0
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import uuidutils

from zun.common import exceptions
from zun.db import containers as db_containers
from zun.db import models, services, session
from zun.tests.unit.db.conftest import BACKENDS
from zun.tests.unit.db.rows import CPUSET, container, node, together, values

table = models.services


def add(connection, host, count=0):
    connection.execute(table.insert().values(host=host, binary="b", created_at=sa.func.now(), report_count=count))


def count_of(connection, host):
    return connection.execute(sa.select(table.c.report_count).where(table.c.host == host)).scalar()


@pytest.fixture
def sqlite(tmp_path):
    session.configure(f"sqlite:///{tmp_path}/zun.sqlite")
    models.metadata.create_all(session.engine())
    yield f"{tmp_path}/zun.sqlite"
    session.dispose()


def test_sqlite_writers_that_read_first_lose_nothing(sqlite):
    with session.writer() as connection:
        add(connection, "h1")

    def work(_number):
        for _ in range(20):
            with session.writer() as connection:
                seen = count_of(connection, "h1")
                connection.execute(table.update().values(report_count=seen + 1))

    assert together(8, work) == [None] * 8
    with session.reader() as connection:
        assert count_of(connection, "h1") == 160


def test_a_full_disk_is_told_and_over_when_there_is_room_again(sqlite):
    def limit(pages):
        """A limit is at least the number that exists already."""
        with session._current().writer.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    def fill():
        for number in range(1000):
            container(labels={"much": "x" * 1000})
            services.heartbeat(f"h{number}", "zun-compute", "nova")

    limit(1)
    with pytest.raises(exceptions.Unavailable, match="cannot be written: database or disk is full"):
        fill()
    with pytest.raises(exceptions.Unavailable, match="cannot be written"):  # also inside a savepoint
        for number in range(1000):
            services.heartbeat(f"another-{number}", "zun-compute", "nova")
    limit(2**30)
    services.heartbeat("h", "zun-compute", "nova")
    assert services.get("h", "zun-compute")["report_count"] == 0


SERVERS = [kind for kind in BACKENDS if kind != "sqlite"]


@pytest.mark.parametrize("database", SERVERS, indirect=True)
@pytest.mark.parametrize("change", [lambda: services.heartbeat("h", "zun-compute", "nova"), container])
def test_a_server_that_is_read_only_is_told(database, lasting_databases, caplog, change):
    only = {
        "mysql": {"init_command": "SET SESSION TRANSACTION READ ONLY"},
        "postgresql": {"options": "-c default_transaction_read_only=on"},
    }
    url = sa.make_url(lasting_databases(database))
    session.configure(url.update_query_dict(only[database]).render_as_string(hide_password=False))
    own = {"mysql": "SELECT CONNECTION_ID()", "postgresql": "SELECT pg_backend_pid()"}[database]
    with session.engine().connect() as connection:
        before = connection.exec_driver_sql(own).scalar()
    with pytest.raises(exceptions.Unavailable, match="cannot be written: the server is read-only"):
        change()
    (logged,) = [record for record in caplog.records if record.name == session.LOG.name]
    assert logged.levelname == "ERROR" and re.search("(?i)read.only transaction", logged.getMessage())
    with session.engine().connect() as connection:  # which may be another server now
        assert connection.exec_driver_sql(own).scalar() != before
    with session.reader() as connection:
        assert session.rows(connection, sa.select(table)) == []


@pytest.mark.parametrize("database", SERVERS, indirect=True)
@pytest.mark.parametrize(
    ("number", "state", "said"),
    [
        (1021, "53100", "its disk is full"),
        (1114, "53100", "its disk is full"),
        (1290, "25006", "the server is read-only"),
        (1836, "25006", "the server is read-only"),
    ],
)
def test_what_servers_say_when_they_cannot_write(database, number, state, said):
    fail = {
        "mysql": f"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'no'",
        "postgresql": f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$",
    }
    with pytest.raises(exceptions.Unavailable, match=f"cannot be written: {said}"), session.writer() as connection:
        add(connection, "h1")
        connection.exec_driver_sql(fail[database])
    with session.reader() as connection:
        assert session.rows(connection, sa.select(table)) == []


@pytest.mark.parametrize("database", SERVERS, indirect=True)
@pytest.mark.parametrize("wrong", [{"password": "no"}, {"username": "nobody"}, {"database": "nothing"}])
def test_a_server_that_lets_nobody_in_is_not_asked_again(database, lasting_databases, caplog, wrong):
    url = sa.make_url(lasting_databases(database)).set(**wrong)
    with pytest.raises(db_exc.DBConnectionError):
        session.configure(url.render_as_string(hide_password=False))
    assert "asking again" not in caplog.text


def test_sqlite_writers_of_two_processes_lose_nothing(sqlite):
    """The lock of one process is not known to the other: the database's own must do."""
    with session.writer() as connection:
        add(connection, "h1")
    here = session._current()
    other = session._sqlite(sa.make_url(f"sqlite:///{sqlite}"))

    def work(number):
        process = (here, other)[number % 2]
        for _ in range(20):
            with process.write_lock, process.writer.begin() as connection:
                seen = count_of(connection, "h1")
                connection.execute(table.update().values(report_count=seen + 1))

    assert together(4, work) == [None] * 4
    with session.reader() as connection:
        assert count_of(connection, "h1") == 80
    other.reader.dispose()
    other.writer.dispose()


def test_sqlite_readers_do_not_wait_for_a_writer(sqlite):
    with ThreadPoolExecutor(1) as pool, session.writer() as connection:
        add(connection, "h1", 7)

        def read():
            with session.reader() as other:
                return count_of(other, "h1")

        assert pool.submit(read).result(timeout=60) is None
        assert count_of(connection, "h1") == 7
    with session.reader() as connection:
        assert count_of(connection, "h1") == 7


def test_sqlite_is_in_wal_mode_and_keeps_its_file(sqlite):
    with session.reader() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def modes(path):
    """The modes of the three files of a database in use."""
    with session.writer() as connection:
        add(connection, uuidutils.generate_uuid())
    return {each.name: each.stat().st_mode & 0o777 for each in path.glob("zun.sqlite*")}


CLOSED = {"zun.sqlite": 0o600, "zun.sqlite-wal": 0o600, "zun.sqlite-shm": 0o600}


def test_only_the_owner_reads_the_files_of_sqlite(sqlite, tmp_path):
    assert modes(tmp_path) == CLOSED


def test_open_files_of_an_earlier_release_are_closed(sqlite, tmp_path):
    modes(tmp_path)
    for each in tmp_path.glob("zun.sqlite*"):
        each.chmod(0o644)
    session.configure(f"sqlite:///{sqlite}")
    assert modes(tmp_path) == CLOSED


def test_the_folder_of_a_new_database_is_closed(tmp_path):
    session.configure(f"sqlite:///{tmp_path}/new/zun.sqlite")
    session.dispose()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(url):
    with pytest.raises(ValueError, match="must be a file"):
        session.configure(url)
    with pytest.raises(RuntimeError, match="configure"), session.reader():
        pass


def test_without_a_database_the_way_to_one_is_told():
    session.dispose()
    for way in (session.reader, session.writer, session.single):
        with pytest.raises(RuntimeError, match=r"call zun.db.session.configure\(url\) first"), way():
            pass


def test_the_folder_of_a_new_database_is_made(tmp_path):
    session.configure(f"sqlite:///{tmp_path}/some/folder/zun.sqlite")
    models.metadata.create_all(session.engine())
    session.dispose()
    assert (tmp_path / "some/folder/zun.sqlite").exists()


def test_what_raises_is_rolled_back(database):
    with pytest.raises(ZeroDivisionError), session.writer() as connection:
        add(connection, "h1")
        raise ZeroDivisionError
    with session.reader() as connection:
        assert session.rows(connection, sa.select(table)) == []


def test_one_statement_is_kept_without_more(database):
    with session.single() as connection:
        add(connection, "h1", 3)
        if session.engine().dialect.name != "sqlite":  # there the transaction is the lock as well
            with session.reader() as other:
                assert count_of(other, "h1") == 3
    with session.reader() as connection:
        assert count_of(connection, "h1") == 3


def test_what_is_there_twice_is_told_alike_by_every_database(database):
    with session.writer() as connection:
        add(connection, "h1")
    with pytest.raises(db_exc.DBDuplicateEntry), session.writer() as connection:
        add(connection, "h1")


def test_transaction_retries_after_deadlock_or_lost_connection():
    in_savepoint = db_exc.DBError(cause=db_exc.DBDeadlock())
    losses = [db_exc.DBDeadlock(), in_savepoint, db_exc.DBConnectionError(), db_exc.DBDeadlock()]

    @session.retry
    def work(value):
        """Some work."""
        if losses:
            raise losses.pop()
        return value

    assert work(7) == 7
    assert (work.__name__, work.__doc__) == ("work", "Some work.")


def test_other_failures_are_not_tried_again():
    calls = []

    @session.retry
    def work():
        calls.append(1)
        raise db_exc.DBDuplicateEntry

    with pytest.raises(db_exc.DBDuplicateEntry):
        work()
    assert len(calls) == 1


def test_many_readers_and_writers_share_few_connections(database):
    def work(number):
        if number < 4:
            with session.writer() as connection:
                add(connection, f"h{number}")
        with session.reader() as connection:
            return len(session.rows(connection, sa.select(table))) <= 4

    assert together(16, work) == [True] * 16
    with session.reader() as connection:
        assert len(session.rows(connection, sa.select(table))) == 4


def test_a_null_in_a_json_column_is_sqls_null(database):
    with session.writer() as connection:
        connection.execute(
            models.containers.insert().values(
                **values(cpuset=None, command=[], labels={}), created_at=sa.func.now()
            )
        )
    with session.reader() as connection:
        found = sa.select(models.containers).where(models.containers.c.cpuset.is_(None))
        row = session.first(connection, found)
        assert row is not None
        assert (row["cpuset"], row["command"], row["labels"], row["mounts"]) == (None, [], {}, None)


def test_text_of_any_language_and_emoji_are_stored(database):
    labels = {"owner": "Zoë 容器 \N{WHALE}"}
    uuid = container(labels=labels)["uuid"]
    with session.reader() as connection:
        found = sa.select(models.containers.c.labels).where(models.containers.c.uuid == uuid)
        assert connection.execute(found).scalar() == labels


@pytest.mark.parametrize("database", [kind for kind in BACKENDS if kind != "sqlite"], indirect=True)
def test_a_connection_that_died_while_idle_is_replaced(database, monkeypatch):
    """The server ends it, as it does after its wait_timeout; nobody is told."""
    monkeypatch.setattr(session, "SERVER_IDLE_SECONDS", 0)
    own = {"mysql": "SELECT CONNECTION_ID()", "postgresql": "SELECT pg_backend_pid()"}[database]
    end = {"mysql": "KILL {}", "postgresql": "SELECT pg_terminate_backend({})"}[database]
    with session.reader() as connection:
        doomed = connection.exec_driver_sql(own).scalar()
    with session.writer() as connection:
        connection.exec_driver_sql(end.format(doomed))
    with session.reader() as connection:
        assert connection.exec_driver_sql(own).scalar() != doomed


@pytest.mark.parametrize("database", [kind for kind in BACKENDS if kind != "sqlite"], indirect=True)
def test_concurrent_transactions_end_on_serializable_server(database, lasting_databases):
    ours = {
        "mysql": {"init_command": "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"},
        "postgresql": {"options": "-c default_transaction_isolation=serializable"},
    }
    url = sa.make_url(lasting_databases(database)).update_query_dict(ours[database])
    session.configure(url.render_as_string(hide_password=False))
    node("h1")
    uuids = [container()["uuid"] for _ in range(8)]
    assert together(8, lambda number: db_containers.destroy(uuids[number])) == [None] * 8  # none has a host
    uuids = [each["uuid"] for each in together(8, lambda _: container(project_id="busy"))]
    claims = together(8, lambda number: db_containers.claim(uuids[number], "h1", {"cpuset": CPUSET}))
    assert sorted(each.generation for each in claims) == list(range(1, 9))


@pytest.mark.parametrize("database", [kind for kind in BACKENDS if kind != "sqlite"], indirect=True)
def test_server_out_of_connections_raises_connection_error(database, lasting_databases, monkeypatch):
    """The error says that a later attempt may succeed."""
    monkeypatch.setattr(session, "SERVER_ATTEMPTS", 1)
    user, url = f"few_{uuidutils.generate_uuid(dashed=False)[:8]}", sa.make_url(lasting_databases(database))
    make = {
        "mysql": f"GRANT ALL ON *.* TO {user}@'127.0.0.1' IDENTIFIED BY 'few' WITH MAX_USER_CONNECTIONS 1",
        "postgresql": f"CREATE USER {user} PASSWORD 'few' CONNECTION LIMIT 1",
    }
    remove = {"mysql": f"DROP USER {user}@'127.0.0.1'", "postgresql": f"DROP USER {user}"}
    few = url.set(username=user, password="few").render_as_string(hide_password=False)
    server = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(make[database])
        try:
            session.configure(few)
            with session.writer(), pytest.raises(db_exc.DBConnectionError), session.reader():
                pass
        finally:
            session.dispose()
            connection.exec_driver_sql(remove[database])
    server.dispose()


def test_a_query_sees_what_was_committed_before_it(database):
    with session.reader() as connection:
        assert count_of(connection, "h1") is None
        with session.writer() as other:
            add(other, "h1", 7)
    with session.reader() as connection:
        assert count_of(connection, "h1") == 7
