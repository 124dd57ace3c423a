# SPDX-License-Identifier: Apache-2.0
"""A MariaDB that a test may kill, beside the one that everybody uses."""

import os
import subprocess

import pytest
import sqlalchemy as sa

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import free_port


class OwnDatabase:
    """A MariaDB server with all its files in ``folder`` and the databases zun and placement. It needs root.

    ``require`` limits how its user connects, ``options`` are more of mariadbd, and ``query`` is the end of its URL.
    """

    def __init__(self, folder, *options, require="NONE", query=""):
        self._folder, port = folder, free_port()
        self.url = f"mysql+pymysql://zun:zun@127.0.0.1:{port}/zun{query}"
        self._command = [
            "mariadbd", "--no-defaults", "--user=root", f"--datadir={folder}/data", f"--socket={folder}/socket",
            f"--pid-file={folder}/pid", "--bind-address=127.0.0.1", f"--port={port}", f"--init-file={folder}/init.sql",
            *options,
        ]  # fmt: skip
        (folder / "init.sql").write_text(
            "".join(
                f"CREATE DATABASE IF NOT EXISTS {name};\n"
                f"GRANT ALL ON {name}.* TO 'zun'@'localhost' IDENTIFIED BY 'zun' REQUIRE {require};\n"
                for name in ("zun", "placement")
            )
        )
        install = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={folder}/data", "--skip-test-db"]
        subprocess.run(install, check=True, stdin=subprocess.DEVNULL, capture_output=True)

    def start(self):
        path = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin"}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=path)
        engine = sa.create_engine(self.url)
        wait_for(lambda: self._answers(engine))
        engine.dispose()

    def _answers(self, engine):
        assert self._process.poll() is None, (self._folder / "log").read_text()[-3000:]
        try:
            engine.connect().close()
        except sa.exc.OperationalError:
            return False
        return True

    def kill(self):
        self._process.kill()
        self._process.wait(60)


@pytest.fixture
def own_database(mysql_url, tmp_path):
    """Running. ``mysql_url`` says whether tests with MariaDB are wanted at all."""
    (tmp_path / "mysql").mkdir()
    made = OwnDatabase(tmp_path / "mysql")
    made.start()
    yield made
    made.kill()
