# SPDX-License-Identifier: Apache-2.0
"""Make Glance's database, or serve Glance on a port of 127.0.0.1 with threads of one process.

    serve_glance.py database URL
    serve_glance.py serve PORT

Run by the Python that has glance; OS_GLANCE_CONFIG_DIR names the folder of glance-api.conf.
"""

import sys


def database(url: str) -> None:
    import sqlalchemy as sa

    place = sa.make_url(url)
    server = sa.create_engine(place.set(database=""))
    with server.begin() as connection:
        connection.execute(sa.text(f"DROP DATABASE IF EXISTS {place.database}"))
        connection.execute(sa.text(f"CREATE DATABASE {place.database} CHARACTER SET utf8mb4"))


def serve(port: int) -> None:
    from cheroot import wsgi
    from glance.wsgi.api import application

    wsgi.Server(("127.0.0.1", port), application, numthreads=8).safe_start()


if __name__ == "__main__":
    word, value = sys.argv[1:]
    del sys.argv[1:]  # glance would read them
    database(value) if word == "database" else serve(int(value))
