# SPDX-License-Identifier: Apache-2.0
"""The types of columns that tables and migrations share.

Migrations that were released make columns of these types, so no type here ever changes. A column that is to be of
another type needs a new name here and a migration.
"""

import sqlalchemy as sa
from sqlalchemy.dialects import mysql


def text(length: int) -> sa.types.TypeEngine[str]:
    """Return a type of text that compares upper and lower case as different, unlike MariaDB's default."""
    exact = mysql.VARCHAR(length, collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


# MySQL's plain DATETIME drops fractions of a second.
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite generates only INTEGER keys
