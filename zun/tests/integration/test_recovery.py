# SPDX-License-Identifier: Apache-2.0
"""The database is lost, or an older dump is restored, while containers run.

With MariaDB or PostgreSQL, RabbitMQ and Docker, and the commands of doc/source/admin/backup.rst.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import types
import uuid

import pytest
import sqlalchemy as sa

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api, free_port, stop_all

pytestmark = [pytest.mark.docker, pytest.mark.distributed]

DEDICATED = {"cpu_policy": "dedicated", "cpu": 1, "memory": 64}
PAGE = (pathlib.Path(__file__).parents[3] / "doc/source/admin/backup.rst").read_text()
DUMP = {"mysql": "mariadb-dump --single-transaction zun", "postgresql": "pg_dump --format custom zun"}
ANEW = {
    "mysql": ['mariadb -e "DROP DATABASE zun; CREATE DATABASE zun CHARACTER SET utf8mb4"'],
    "postgresql": ["dropdb zun", "createdb --owner zun zun"],
}
RESTORE = {"mysql": "mariadb zun", "postgresql": "pg_restore --exit-on-error --dbname zun"}


@pytest.fixture
def cloud(request, program, tmp_path, docker_url, rabbit_url):
    """One host, with every program in a process of its own. ``manage`` runs zun-db-manage.

    The parameter is ``[compute] database``, and the fixture that makes the database.
    """
    access, database = request.param
    database_url = request.getfixturevalue(database)
    host, port = f"test-{uuid.uuid4().hex[:8]}", free_port()
    common = {
        "DEFAULT": {
            "host": host, "transport_url": rabbit_url, "control_exchange": host, "state_path": tmp_path / "state"
        },
        "oslo_messaging_rabbit": {"rabbit_quorum_queue": "true"},
    }  # fmt: skip
    login = {"database": {"connection": database_url}}
    compute = {
        "database": access, "reserved_host_memory_mb": 128, "sync_container_state_interval": 2, "inventory_interval": 2
    }  # fmt: skip
    docker = {"api_url": docker_url, "execute_timeout": 60}
    conductors = {
        accepts: program("conductor", f"conductor-{accepts}", conductor={"accept_restored": accepts}, **login, **common)
        for accepts in (False, True)
    }
    programs = [
        program("compute", compute=compute, docker=docker, **(login if access == "direct" else {}), **common),
        program("scheduler", scheduler={"sweep_interval": 1}, **login, **common),
        program("api", api={"port": port, "auth_strategy": "noauth"}, **login, **common),
    ]

    def manage(*words):
        return program("db_manage", words=words, **login, **common).run_to_end()

    def start_conductor(accept_restored):
        """Start the conductor, if hosts need one, in the place of one that runs."""
        if access == "conductor":
            conductors[not accept_restored].stop()
            conductors[accept_restored].start()

    def start(accept_restored=False):
        start_conductor(accept_restored)
        for each in programs:
            each.start()

    def stop():
        stop_all([*programs, *conductors.values()])

    assert manage("upgrade")[0] == 0
    start()
    api = Api(f"http://127.0.0.1:{port}/v1")
    url = sa.make_url(database_url)
    yield types.SimpleNamespace(
        api=api, manage=manage, start=start, start_conductor=start_conductor, stop=stop, host=host, url=url
    )
    api.delete_all()


def running(engine, container):
    """Return the pid, the CPUs and the start of the container's process."""
    seen = engine.inspect_container(f"zun-{container}")
    assert seen["State"]["Running"]
    return seen["State"]["Pid"], seen["HostConfig"]["CpusetCpus"], seen["State"]["StartedAt"]


def by_the_page(url, command, stdin=None):
    """Run a command of the page for the database of ``url`` in the place of zun, and return its output."""
    assert command in PAGE
    program, *words = shlex.split(re.sub(r"(?<!owner )\bzun\b", url.database, command))
    assert shutil.which(program), f"{program} is not installed"
    environment = {"PGHOST": url.host, "PGPORT": str(url.port), "PGUSER": url.username, "PGPASSWORD": url.password}
    login = []
    if url.get_backend_name() == "mysql":
        login = [f"--host={url.host}", f"--port={url.port}", f"--user={url.username}", f"--password={url.password}"]
        login.insert(0, "--no-defaults")
    command = [program, *login, *words]
    return subprocess.run(command, input=stdin, check=True, stdout=subprocess.PIPE, env=os.environ | environment).stdout


def create_anew(url):
    for command in ANEW[url.get_backend_name()]:
        by_the_page(url, command)


def execute(api, container, command):
    answer = api.request("POST", f"/containers/{container}/execute?command={command}&run=true&interactive=false")
    answer.raise_for_status()
    return answer.json()["output"]


@pytest.mark.parametrize("cloud", [pytest.param(("direct", "database_url"), id="direct")], indirect=True)
def test_lost_database_is_rebuilt_and_nothing_restarts(cloud, engine):
    dedicated = cloud.api.run(**DEDICATED, name="db", environment={"A": "b"})
    shared = cloud.api.run(cpu=0.5, memory=64)
    before = {each: cloud.api.settled(each) for each in (dedicated, shared)}
    processes = {each: running(engine, each) for each in before}
    cloud.stop()
    create_anew(cloud.url)
    assert cloud.manage("upgrade")[0] == 0
    cloud.start()
    assert cloud.api.get("/containers")["containers"] == []
    other = cloud.api.settled(cloud.api.run(**DEDICATED, name="other"))
    assert other["status"] != "Running" or other["cpuset_cpus"] != processes[dedicated][1], "its CPU is not free"
    code, said = cloud.manage("recover", "--dry-run")
    assert code == 0 and f"db ({dedicated}) would have its row again" in said, said
    code, said = cloud.manage("recover")
    assert code == 0 and f"db ({dedicated}) has its row again" in said, said
    after = {each: cloud.api.settled(each) for each in before}
    for each in before:
        changed = {name for name in before[each] if before[each][name] != after[each][name]}
        assert changed <= {"updated_at", "status_detail"}, changed
    assert {each: running(engine, each) for each in before} == processes
    assert {dedicated, shared} <= {claim["container"] for claim in cloud.api.held()[cloud.host]}
    assert execute(cloud.api, dedicated, "echo+ok") == "ok\n"
    cloud.api.delete_all()
    assert engine.containers(all=True, filters={"label": f"zun.host={cloud.host}"}) == []
    assert cloud.manage("recover")[0] == 0


@pytest.mark.parametrize(
    "cloud",
    [
        pytest.param(("conductor", "database_url"), id="conductor"),
        pytest.param(("direct", "postgres_database_url"), id="postgresql"),
    ],
    indirect=True,
)
def test_older_dump_is_restored_while_containers_run(cloud, engine):
    """What was created later comes back with ``recover``. What was deleted later is in Error until it is deleted."""
    kept, deleted = cloud.api.run(**DEDICATED, name="kept"), cloud.api.run(**DEDICATED, name="deleted")
    before = cloud.api.settled(kept)
    assert cloud.api.settled(deleted)["status"] == "Running"
    dump = by_the_page(cloud.url, DUMP[cloud.url.get_backend_name()])
    cpu = running(engine, deleted)[1]
    assert cloud.api.request("DELETE", f"/containers/{deleted}?force=true").status_code == 204
    wait_for(lambda: cloud.api.request("GET", f"/containers/{deleted}").status_code == 404)
    created = cloud.api.run(**DEDICATED, name="created")
    shown = cloud.api.settled(created)
    processes = {each: running(engine, each) for each in (kept, created)}
    cloud.stop()
    create_anew(cloud.url)
    by_the_page(cloud.url, RESTORE[cloud.url.get_backend_name()], stdin=dump)
    assert cloud.manage("upgrade")[0] == 0
    cloud.start(accept_restored=True)
    assert cloud.api.settled(kept)["cpuset_cpus"] == before["cpuset_cpus"]
    gone = wait_for(lambda: (one := cloud.api.settled(deleted))["status"] == "Error" and one)
    assert "does not exist at the runtime any more" in gone["status_reason"]
    if shown["cpuset_cpus"] == cpu:  # of few CPUs: the row of what was deleted holds those of what was created
        code, said = cloud.manage("recover")
        assert code == 1 and f"CPUs {cpu} belong to other containers by now" in said, said
    assert cloud.api.request("DELETE", f"/containers/{deleted}?force=true").status_code == 204
    wait_for(lambda: cloud.api.request("GET", f"/containers/{deleted}").status_code == 404)
    code, said = cloud.manage("recover")
    assert code == 0 and f"created ({created}) has its row again" in said, said
    cloud.start_conductor(accept_restored=False)
    assert cloud.api.settled(created)["cpuset_cpus"] == shown["cpuset_cpus"]
    assert {each: running(engine, each) for each in (kept, created)} == processes
