# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL of a test's own, with TLS only, and what a service says to a database that it cannot use."""

import contextlib
import pathlib
import shutil
import subprocess

import pytest

from zun.cmd import program
from zun.db import session
from zun.tests.fixtures import own_conf, wait_for
from zun.tests.integration.programs import free_port


@contextlib.contextmanager
def own_postgres(folder, cert, key):
    """Run a server in ``folder``, which user postgres can reach, and give its URL. It needs root."""
    port, data = free_port(), folder / "data"
    programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4]))
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
    for name, content in (("password", b"zun\n"), ("cert.pem", cert), ("key.pem", key)):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
        shutil.chown(folder / name, "postgres")
    shutil.chown(folder, "postgres")
    create = [
        *user, programs[-1], f"--pgdata={data}", "--username=zun", "--encoding=UTF8", "--locale=C",
        "--auth=scram-sha-256", f"--pwfile={folder}/password", "--no-sync",
    ]  # fmt: skip
    subprocess.run(create, check=True, stdin=subprocess.DEVNULL, capture_output=True, cwd="/")
    (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")
    settings = {
        "listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off", "ssl": "on",
        "ssl_cert_file": folder / "cert.pem", "ssl_key_file": folder / "key.pem",
    }  # fmt: skip
    serve = [*user, programs[-1].with_name("postgres"), "-D", data]
    serve += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(serve, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")

    def ready():
        said = (folder / "log").read_text()
        assert process.poll() is None, said
        return "ready to accept connections" in said

    try:
        wait_for(ready, 60)
        yield f"postgresql+psycopg://zun:zun@127.0.0.1:{port}/postgres"
    finally:
        process.terminate()
        process.wait(60)


def refused(url, reason):
    """A service ends at its start because of ``reason``, instead of waiting for the database."""
    try:
        with pytest.raises(SystemExit, match=reason):
            program.open_database(own_conf(database__connection=url))
    finally:
        session.dispose()
