# SPDX-License-Identifier: Apache-2.0
"""The API of the Zun on PyPI as a WSGI application: run by the Python that has it, not by this project's.

    python api_peer.py FOLDER CONTAINERS

Identity comes in headers, as keystone's middleware would leave it; the database is SQLite in FOLDER. Prints
milliseconds of CPU time by request as JSON, or the status of a request that it refuses.
"""

import eventlet

eventlet.monkey_patch()

import datetime  # noqa: E402
import io  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
import uuid  # noqa: E402
from pathlib import Path  # noqa: E402

FOLDER, CONTAINERS = Path(sys.argv[1]), int(sys.argv[2])
SERVICE = (
    "auth_url = http://127.0.0.1:9/v3\nauth_type = password\nusername = zun\npassword = x\nproject_name = service\n"
    "user_domain_id = default\nproject_domain_id = default\n"
)
HEADERS = {
    "HTTP_X_USER_ID": "u",
    "HTTP_X_PROJECT_ID": "benchmark",
    "HTTP_X_ROLES": "member",
    "HTTP_X_AUTH_TOKEN": "t",
    "HTTP_OPENSTACK_API_VERSION": "container 1.40",
    "HTTP_ACCEPT": "application/json",
    "CONTENT_TYPE": "application/json",
}


def application():
    (FOLDER / "api-paste.ini").write_text(
        "[pipeline:main]\npipeline = api_v1\n[app:api_v1]\npaste.app_factory = zun.api.app:app_factory\n"
    )
    (FOLDER / "zun.conf").write_text(
        f"[DEFAULT]\ntransport_url = fake://\nstate_path = {FOLDER}\n[database]\nconnection = sqlite:///{FOLDER}/z.sqlite\n"
        f"[api]\napi_paste_config = {FOLDER}/api-paste.ini\n[oslo_concurrency]\nlock_path = {FOLDER}\n"
        "[quota]\ncontainers = -1\ncpu = -1\nmemory = -1\ndisk = -1\n"
        f"[keystone_auth]\n{SERVICE}[keystone_authtoken]\n{SERVICE}"
    )
    import sqlalchemy as sa
    from oslo_log import log as oslo_log

    import zun.conf
    from zun.api import app
    from zun.common import config
    from zun.db.sqlalchemy import models

    oslo_log.register_options(zun.conf.CONF)
    config.parse_args(["peer", "--config-file", str(FOLDER / "zun.conf")])
    logging.disable(logging.CRITICAL)
    engine = sa.create_engine(f"sqlite:///{FOLDER}/z.sqlite")
    models.Base.metadata.create_all(engine)
    table = models.Base.metadata.tables["container"]
    with engine.begin() as connection:
        for start in range(0, CONTAINERS, 1000):
            rows = [row(index, table.c) for index in range(start, min(CONTAINERS, start + 1000))]
            connection.execute(table.insert(), rows)
    return app.load_app()


def row(index, columns):
    now = datetime.datetime(2026, 1, 1)
    values = {
        "uuid": str(uuid.uuid4()),
        "name": f"container-{index}",
        "project_id": "benchmark",
        "user_id": "u",
        "created_at": now,
        "updated_at": now,
        "started_at": now,
        "image": "registry.example/team/web:1.2",
        "image_driver": "docker",
        "image_pull_policy": "ifnotpresent",
        "cpu": 2.0,
        "cpu_policy": "shared",
        "memory": "512",
        "disk": 0,
        "status": "Running",
        "command": ["python3", "-m", "http.server", "8080"],
        "environment": {"LANG": "C.UTF-8", "PORT": "8080"},
        "labels": {"app": "web", "tier": "front"},
        "restart_policy": {"Name": "no", "MaximumRetryCount": "0"},
        "hostname": f"web-{index}",
        "host": f"host-{index % 500}",
        "addresses": {},
        "container_type": 0,
    }
    return {name: value for name, value in values.items() if name in columns}


def send(api, method, path, body=None):
    raw = b"" if body is None else json.dumps(body).encode()
    path, _, query = path.partition("?")
    environ = {
        **HEADERS,
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "peer",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_LENGTH": str(len(raw)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(raw),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    found = []
    b"".join(api(environ, lambda status, headers, exc_info=None: found.append(status)))
    return found[0]


def main():
    api, figures = application(), {}
    body = {"image": "web", "command": ["sleep", "1000"], "memory": "64", "cpu": 1}
    for name, request, times in (
        ("page of 1000", ("GET", "/v1/containers/?limit=1000"), 5),
        ("page of 20", ("GET", "/v1/containers/?limit=20"), 30),
        ("create", ("POST", "/v1/containers/", body), 30),
    ):
        status = send(api, *request)
        if status[0] != "2":
            figures[name] = {"refused": status}
            continue
        began = time.process_time()
        for _ in range(times):
            send(api, *request)
        figures[name] = {"cpu": (time.process_time() - began) / times * 1000}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
