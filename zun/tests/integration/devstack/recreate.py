# SPDX-License-Identifier: Apache-2.0
"""Make an empty database: ``recreate.py URL NAME``. devstack's own way needs a MariaDB at the usual port."""

import sys

import sqlalchemy as sa

with sa.create_engine(sys.argv[1], isolation_level="AUTOCOMMIT").connect() as connection:
    connection.execute(sa.text(f"DROP DATABASE IF EXISTS {sys.argv[2]}"))
    connection.execute(sa.text(f"CREATE DATABASE {sys.argv[2]} CHARACTER SET utf8mb4"))
