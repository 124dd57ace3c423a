# SPDX-License-Identifier: Apache-2.0
import pytest
from oslo_config import cfg

from zun.cmd import program
from zun.conf import database
from zun.db import session


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Opens the database of a URL, in which ``FILE`` is a file that is no database."""
    monkeypatch.setattr(session, "SERVER_WAIT_SECONDS", 0)
    monkeypatch.setattr(session, "SERVER_ATTEMPTS", 3)
    (tmp_path / "file").write_text("hello" * 1000)

    def opened(url):
        conf = cfg.ConfigOpts()
        database.register_opts(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        conf.set_override("connection", url.replace("FILE", str(tmp_path / "file")), group="database")
        program.open_database(conf)

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


def test_a_server_that_is_not_up_is_asked_again_and_told_about(opened, caplog):
    port = 1  # nobody listens there
    with pytest.raises(SystemExit, match="refused"):
        opened(f"mysql+pymysql://zun:secret@127.0.0.1:{port}/zun")
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 2  # and the third attempt is the last
    assert all(f"127.0.0.1:{port}" in line and "asking again" in line and "secret" not in line for line in said)
