# SPDX-License-Identifier: Apache-2.0
import gc
import json
import subprocess
import sys

import amqp.exceptions
import oslo_messaging
import pytest
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exc

from zun.cmd import program
from zun.common import exceptions
from zun.conf import database
from zun.db import migration, session


def configuration(url):
    conf = cfg.ConfigOpts()
    conf.register_opts(database.OPTS, group=database.GROUP)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", url, group="database")
    return conf


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Opens the database of a URL, in which ``FILE`` is a file that is no database."""
    monkeypatch.setattr(session, "SERVER_WAIT_SECONDS", 0)
    monkeypatch.setattr(session, "SERVER_ATTEMPTS", 3)
    (tmp_path / "file").write_text("hello" * 1000)

    def opened(url):
        program.open_database(configuration(url.replace("FILE", str(tmp_path / "file"))))

    yield opened
    session.dispose()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        pytest.param("nonsense", "parse", id="no-url"),
        pytest.param("oracool://db/zun", "oracool", id="unknown-kind"),
        pytest.param("sqlite:///FILE/below", "File exists", id="no-folder"),
        pytest.param("sqlite:///FILE", "not a database", id="no-database"),
        pytest.param("sqlite://", "must be a file", id="in-memory"),
    ],
)
def test_a_database_that_cannot_be_used_is_told_in_one_line(opened, url, reason):
    with pytest.raises(SystemExit) as told:
        opened(url)
    said = str(told.value)
    assert said.startswith("The database of [database] connection cannot be used: ")
    assert reason in said and "\n" not in said


@pytest.mark.parametrize("kind", ["mysql+pymysql", "postgresql+psycopg"])
def test_a_server_that_is_not_up_is_asked_again_and_told_about(opened, caplog, kind):
    port = 1  # nobody listens there
    with pytest.raises(SystemExit, match="refused"):
        opened(f"{kind}://zun:secret@127.0.0.1:{port}/zun")
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 2  # and the third attempt is the last
    assert all(f"127.0.0.1:{port}" in line and "asking again" in line and "secret" not in line for line in said)


def test_missing_driver_is_reported_with_its_source(opened, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SystemExit, match=r"psycopg.*extra 'postgresql'"):
        opened("postgresql+psycopg://zun@127.0.0.1:1/zun")


@pytest.mark.parametrize(
    ("schema", "said"),
    [(None, "schema none, .*zun-db-manage upgrade"), ("0001", "schema 0001, .*zun-db-manage upgrade"), ("9999", "")],
)
def test_only_an_older_schema_stops_a_program(opened, tmp_path, caplog, schema, said):
    """In an upgrade the schema is the first to be new, and services of the release before may be restarted."""
    url = f"sqlite:///{tmp_path}/zun.sqlite"
    opened(url)
    if schema is not None:
        migration.upgrade("0001")
        with session.writer() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = :schema"), {"schema": schema})
    if said:
        with pytest.raises(SystemExit, match=said):
            program.connect_database(configuration(url))
    else:
        program.connect_database(configuration(url))
        assert "upgrade the program" in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        cfg.ConfigFilesNotFoundError(["/etc/zun/zun.conf"]),
        exceptions.Misconfigured("no such scheduler filter: A"),
        exceptions.Unavailable("Docker does not answer"),
        oslo_messaging.InvalidTransportURL("rabbit//", "no scheme"),
    ],
)
def test_what_the_operator_mends_is_told_in_one_line(error):
    def main():
        raise error

    with pytest.raises(SystemExit) as told:
        program.without_traceback(main)()
    assert told.value.code == str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    "error",
    [
        db_exc.DBConnectionError(Exception("(2013, 'Lost connection')\n[SQL: SELECT 1]")),
        oslo_messaging.MessageDeliveryFailure("Unable to connect to AMQP server"),
    ],
)
def test_what_goes_away_during_the_start_is_told_in_one_line(error):
    def main():
        raise error

    with pytest.raises(SystemExit) as told:
        program.without_traceback(main)()
    assert str(error).partition("\n")[0] in told.value.code and told.value.code.endswith("Start it again.")
    assert "\n" not in told.value.code


def test_a_defect_keeps_its_traceback():
    with pytest.raises(KeyError):
        program.without_traceback(lambda: {}["defect"])()


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (amqp.exceptions.AccessRefused("ACCESS_REFUSED - Login was refused.", (0, 0)), "Login was refused"),
        (amqp.exceptions.NotAllowed("NOT_ALLOWED - vhost nope not found", (10, 40)), "vhost nope not found"),
    ],
)
def test_a_queue_that_refuses_the_login_is_told_in_one_line(refusal, reason):
    @program.without_traceback
    def main():
        raise refusal

    with pytest.raises(SystemExit) as told:
        main()
    assert reason in str(told.value) and "[DEFAULT] transport_url" in str(told.value)
    assert "\n" not in str(told.value)


def test_a_program_logs_a_message_in_one_line(tmp_path):
    said = subprocess.run(
        [sys.executable, "-c", _LOGS, "--config-dir", str(tmp_path)], capture_output=True, text=True, check=True
    )
    (line,) = [each for each in (said.stdout + said.stderr).splitlines() if "Image" in each or "forged" in each]
    assert r"Image a\nforged\x1b[2J" in line


def test_json_lines_have_the_request_id(tmp_path):
    """Option use_json of oslo.log, for programs that collect logs."""
    said = subprocess.run(
        [sys.executable, "-c", _LOGS, "--config-dir", str(tmp_path), "--use-json"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(each) for each in (said.stdout + said.stderr).splitlines() if each.startswith("{")]
    first, second = (each for each in lines if each["name"] == "zun.test")
    assert first["message"] == "Image a\nforged\x1b[2J"
    assert first["levelname"] == "WARNING"
    assert second["context"]["request_id"] == "req-6f0c1d1e-0000-4000-8000-000000000001"
    assert (second["context"]["project_id"], second["message"]) == ("demo", "Claimed")
    assert "ZeroDivisionError" in second["traceback"]


_LOGS = """
import logging
from zun.cmd import program
program.configure("zun-test")
logging.getLogger("zun.test").warning("Image %s", "a\\nforged\\x1b[2J")
from zun.common.context import RequestContext
RequestContext(project_id="demo", request_id="req-6f0c1d1e-0000-4000-8000-000000000001").update_store()
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("zun.test").exception("Claimed")
"""


def test_a_new_state_folder_is_closed_to_other_users(tmp_path, caplog):
    program.make_state_folder(f"{tmp_path}/a/zun")
    assert (tmp_path / "a/zun").stat().st_mode & 0o777 == 0o700
    assert not caplog.records


def test_an_open_state_folder_is_told(tmp_path, caplog):
    """It is the operator's: something else may be in it."""
    tmp_path.chmod(0o755)
    program.make_state_folder(str(tmp_path))
    assert f"chmod 700 {tmp_path}" in caplog.text
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_the_garbage_collector_runs_seldom(monkeypatch):
    set_to = []
    monkeypatch.setattr(gc, "set_threshold", lambda *given: set_to.append(given))
    program.collect_garbage_seldom()
    assert set_to == [program.SELDOM]
