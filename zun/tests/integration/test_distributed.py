# SPDX-License-Identifier: Apache-2.0
"""Every program in a process of its own, over RabbitMQ and MariaDB: one API, one scheduler, two compute services.

Both compute services use one Docker daemon. Their host names and labels keep their containers apart, and
``cpu_dedicated_set`` their CPUs: the first has CPU 0, the second all others.
"""

import pathlib
import types
import uuid

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api, free_port
from zun.tests.integration.transfers import SECONDS, SIZE, Growth, there_and_back
from zun.topology import CpuSet, discover

pytestmark = [pytest.mark.docker, pytest.mark.distributed]

DEDICATED = {"cpu_policy": "dedicated", "cpu": 1}


@pytest.fixture
def cloud(program, tmp_path, docker_url, rabbit_url, database_url):
    """``api``, ``computes`` by host name, ``scheduler``: all running on an empty cloud."""
    name, port = f"test-{uuid.uuid4().hex[:8]}", free_port()
    cpus = discover().cpus
    sets = {f"{name}-a": CpuSet([min(cpus)]), f"{name}-b": cpus - CpuSet([min(cpus)])}
    common = {
        "database": {"connection": database_url},
        "oslo_messaging_rabbit": {"rabbit_quorum_queue": "true", "heartbeat_timeout_threshold": 10},
    }

    def default(host):
        # An exchange of the test's own: services of other tests do not hear it.
        return {"host": host, "transport_url": rabbit_url, "control_exchange": name}

    code, said = program("db_manage", words=("upgrade",), DEFAULT=default(name), **common).run_to_end()
    assert code == 0, said
    scheduler = program("scheduler", DEFAULT=default(name), scheduler={"sweep_interval": 1, "lost_after": 3}, **common)
    computes = {
        host: program(
            "compute",
            host,
            DEFAULT=default(host),
            docker={"api_url": docker_url, "execute_timeout": 60},
            compute={
                "cpu_dedicated_set": dedicated,
                "reserved_host_memory_mb": 128,
                "sync_container_state_interval": 2,
            },
            **common,
        )
        for host, dedicated in sets.items()
    }
    server = program("api", DEFAULT=default(name), api={"port": port, "auth_strategy": "noauth"}, **common)
    for each in (scheduler, *computes.values(), server):
        each.start()
    api = Api(f"http://127.0.0.1:{port}/v1")
    yield types.SimpleNamespace(api=api, scheduler=scheduler, computes=computes, server=server, sets=sets)
    for each in (scheduler, *computes.values()):
        if each.process is None:
            each.start()
    api.delete_all()


def where(engine, shown):
    """The CPUs the kernel allows the container, and the host its label names."""
    seen = engine.inspect_container(f"zun-{shown['uuid']}")
    lines = pathlib.Path(f"/proc/{seen['State']['Pid']}/status").read_text().splitlines()
    allowed = next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list"))
    return CpuSet(allowed), seen["Config"]["Labels"]["zun.host"]


def check_pinned(cloud, engine, shown):
    """Every running container is where its claim says, on CPUs of its own host's set, and no CPU has two."""
    running = [each for each in shown if each["status"] == "Running"]
    taken = CpuSet("")
    for each in running:
        cpus, host = where(engine, each)
        assert (str(cpus), host) == (each["cpuset_cpus"], each["host"])
        assert cpus <= cloud.sets[host] and not cpus & taken
        taken |= cpus
    return running


def test_two_hosts_share_the_work_and_nothing_is_given_twice(cloud, engine):
    uuids = [cloud.api.run(**DEDICATED) for _ in range(len(discover().cpus) + 4)]
    shown = [cloud.api.settled(each) for each in uuids]
    running = check_pinned(cloud, engine, shown)
    assert len(running) == len(discover().cpus), [each["status_reason"] for each in shown]
    assert {each["host"] for each in running} == set(cloud.computes)
    refused = [each for each in shown if each["status"] == "Error"]
    assert len(refused) == 4
    assert all("Of 2 hosts" in each["status_reason"] for each in refused)
    output = cloud.api.request("POST", f"/containers/{running[0]['uuid']}/execute?command=echo%20hello").json()
    assert (output["output"].strip(), output["exit_code"]) == ("hello", 0)
    cloud.api.delete_all()
    assert list(cloud.api.held().values()) == [[], []]


@pytest.mark.parametrize("victim", ["compute", "scheduler"])
def test_a_killed_service_loses_nothing(cloud, engine, victim):
    killed = cloud.scheduler if victim == "scheduler" else next(iter(cloud.computes.values()))
    uuids = [cloud.api.run(**DEDICATED) for _ in range(20)]
    wait_for(lambda: any(cloud.api.held().values()), 60)
    killed.kill()
    killed.start()
    shown = [cloud.api.settled(each) for each in uuids]
    assert {each["status"] for each in shown} == {"Running", "Error"}
    running = check_pinned(cloud, engine, shown)
    assert len(running) == len(discover().cpus), [each["status_reason"] for each in shown]
    cloud.api.delete_all()
    assert list(cloud.api.held().values()) == [[], []]


def test_a_request_for_a_host_that_is_down_is_told_so(cloud):
    host, compute = next(iter(cloud.computes.items()))
    cloud.api.request("PUT", f"/services/force_down?host={host}&binary=zun-compute&forced_down=true")
    shown = cloud.api.settled(cloud.api.run(**DEDICATED, host=host))
    assert shown["status"] == "Error"
    assert "ComputeFilter rejected 1" in shown["status_reason"]
    cloud.api.request("PUT", f"/services/force_down?host={host}&binary=zun-compute&forced_down=false")
    wait_for(lambda: cloud.api.settled(cloud.api.run(**DEDICATED, host=host))["status"] == "Running", 60)
    assert compute.process.poll() is None


@pytest.mark.timeout(SECONDS)
@pytest.mark.slow
def test_large_archives_fill_no_memory_on_their_way(cloud):
    """Each piece is a message. None but the few under way is in a process, whatever the size of the whole."""
    shown = cloud.api.settled(cloud.api.run(cpu=0.5))
    assert shown["status"] == "Running", shown["status_reason"]
    server, compute = cloud.server.process.pid, cloud.computes[shown["host"]].process.pid
    with Growth.measured(server, compute) as grown:
        put, get = there_and_back(cloud.api, shown["uuid"])
    figures = f"API + {grown.mib[server]:.0f} MiB, zun-compute + {grown.mib[compute]:.0f} MiB"
    print(f"\n{SIZE >> 20} MiB: put {put:.1f} s, get {get:.1f} s, {figures}")
    assert max(grown.mib.values()) < 80
