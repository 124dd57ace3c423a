# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL that speaks TLS only."""

import pathlib
import tempfile

import pytest

from zun.tests.certificates import Authority, put
from zun.tests.integration.own_postgres import own_postgres, refused

pytestmark = pytest.mark.distributed


def test_postgresql_with_tls(program, postgres_url, tmp_path):
    authority = Authority()
    ca, wrong = put(tmp_path / "ca.pem", authority.pem), put(tmp_path / "wrong.pem", Authority("another").pem)
    with (
        tempfile.TemporaryDirectory(prefix="zun-postgres.") as folder,
        own_postgres(pathlib.Path(folder), *authority.issue("postgres")) as url,
    ):
        secure = f"{url}?sslmode=verify-full&sslrootcert="
        code, said = program("db_manage", words=("upgrade",), database={"connection": f"{secure}{ca}"}).run_to_end()
        assert code == 0, said
        refused(f"{secure}{wrong}", "certificate verify failed")
        refused(f"{url}?sslmode=disable", "no pg_hba.conf entry")
