# SPDX-License-Identifier: Apache-2.0
"""The all-in-one on a real Docker daemon, used through HTTP and through the stock client."""

import os
import pathlib
import socket
import uuid

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api, Client, free_port
from zun.topology import CpuSet, discover

pytestmark = [pytest.mark.docker, pytest.mark.in_turn]

DEDICATED = {"cpu_policy": "dedicated", "cpu": 1}


@pytest.fixture
def allinone(on_docker, engine):
    """The all-in-one, running, as ``allinone.api`` and ``allinone.client``; every container is removed at the end."""
    made = on_docker(docker={"execute_timeout": 60})
    made.api, made.client = Api(made.url), Client(made.url)
    made.start()
    yield made
    if made.process is None:
        made.start()
    made.api.delete_all()
    made.stop()
    assert engine.containers(all=True, filters={"label": f"zun.host={made.host}"}) == []


def allowed(engine, container_uuid):
    """The CPUs and memory nodes that the kernel allows the container's first process."""
    pid = engine.inspect_container(f"zun-{container_uuid}")["State"]["Pid"]
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines if "allowed_list" in line)
    return CpuSet(found["Cpus_allowed_list"].strip()), CpuSet(found["Mems_allowed_list"].strip())


def test_a_dedicated_container_is_pinned_in_the_kernel(allinone, engine):
    shown = allinone.api.settled(allinone.api.run(**DEDICATED))
    assert shown["status"] == "Running", shown["status_reason"]
    cpus, mems = allowed(engine, shown["uuid"])
    assert (str(cpus), str(mems)) == (shown["cpuset_cpus"], shown["cpuset_mems"])
    assert len(cpus) == 1
    config = engine.inspect_container(f"zun-{shown['uuid']}")["HostConfig"]
    assert (config["CpuQuota"], config["Memory"]) == (0, 64 << 20)


def test_a_dedicated_container_is_never_throttled(allinone, engine):
    """It has no CFS quota: under full load not one period ends early."""
    shown = allinone.api.settled(
        allinone.api.run(**DEDICATED, cpu_isolation="core", command=["sh", "-c", "while :; do :; done"])
    )
    assert shown["status"] == "Running", shown["status_reason"]
    assert shown["cpuset_isolation"] in ("core", "l3", "node")
    pid = engine.inspect_container(f"zun-{shown['uuid']}")["State"]["Pid"]
    wait_for(lambda: cpu_seconds(pid) > 1.0, 60)
    group = cpu_group(pid)
    stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    assert stat["nr_throttled"] == "0"
    if (group / "cpu.max").exists():
        assert (group / "cpu.max").read_text().split()[0] == "max"
    else:
        assert (group / "cpu.cfs_quota_us").read_text().strip() == "-1"


def cpu_seconds(pid):
    """CPU time of the process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_group(pid):
    """The folder of the control group that may limit the CPU time of the process."""
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return pathlib.Path(f"/sys/fs/cgroup/{controllers}{path}")
        if number == "0" and not controllers:
            unified = pathlib.Path(f"/sys/fs/cgroup{path}")
    return unified


def test_a_shared_container_leaves_the_cpus_of_a_dedicated_one(allinone, engine):
    shared = allinone.api.settled(allinone.api.run(cpu=0.5))
    assert shared["status"] == "Running", shared["status_reason"]
    before, _ = allowed(engine, shared["uuid"])
    dedicated = allinone.api.settled(allinone.api.run(**DEDICATED))
    assert dedicated["status"] == "Running", dedicated["status_reason"]
    mine, _ = allowed(engine, dedicated["uuid"])
    assert allowed(engine, shared["uuid"])[0] == before - mine
    # The last CPU of the pool cannot be pinned away from under a shared container.
    rest = len(before - mine)
    refused = [allinone.api.settled(allinone.api.run(**DEDICATED)) for _ in range(rest)][-1]
    assert refused["status"] == "Error" and "No valid host" in refused["status_reason"]
    allinone.api.request("DELETE", f"/containers/{dedicated['uuid']}?stop=true")
    wait_for(lambda: allowed(engine, shared["uuid"])[0] != before - mine, 60)


def test_twenty_at_once_on_the_cpus_there_are(allinone, engine):
    cpus = discover().cpus
    uuids = [allinone.api.run(**DEDICATED) for _ in range(20)]
    shown = [allinone.api.settled(each) for each in uuids]
    running = [each for each in shown if each["status"] == "Running"]
    assert len(running) == min(20, len(cpus))
    places = [cpu for each in running for cpu in allowed(engine, each["uuid"])[0]]
    assert len(places) == len(set(places)) == len(running)
    for each in shown:
        if each not in running:
            assert each["status"] == "Error" and "No valid host" in each["status_reason"]
    allinone.api.delete_all()
    assert list(allinone.api.held().values()) == [[]]


def test_twenty_at_once_survive_a_kill_in_the_middle(allinone, engine):
    cpus = discover().cpus
    uuids = [allinone.api.run(**DEDICATED) for _ in range(20)]
    wait_for(lambda: any(claims for claims in allinone.api.held().values()))
    allinone.kill()
    allinone.start()
    shown = [allinone.api.settled(each) for each in uuids]
    running = [each for each in shown if each["status"] == "Running"]
    assert len(running) == min(20, len(cpus)), [each["status_reason"] for each in shown]
    places = [cpu for each in running for cpu in allowed(engine, each["uuid"])[0]]
    assert len(places) == len(set(places))
    assert {each["status"] for each in shown} <= {"Running", "Error"}
    allinone.api.delete_all()
    assert list(allinone.api.held().values()) == [[]]
    assert allinone.api.settled(allinone.api.run(**DEDICATED))["status"] == "Running"


def test_a_container_that_ends_by_itself_is_seen(allinone):
    made = allinone.api.run(command=["sh", "-c", "exit 3"], cpu=0.5)

    def shown():
        return allinone.api.get(f"/containers/{made}")

    wait_for(lambda: (shown()["status_detail"] or "").startswith("Exited(3)"), 60)
    assert shown()["status"] == "Stopped"


def test_the_stock_client_lives_a_whole_life(allinone):
    client, name = allinone.client, f"c-{uuid.uuid4().hex[:8]}"

    def status():
        return client.json("appcontainer", "show", name)["status"]

    client(
        "appcontainer", "run", "--name", name, "--cpu", "0.5", "--memory", "64", "--label", "kind=test",
        "--environment", "GREETING=hello", "zun-demo", "sh", "-c", "echo started $GREETING; exec sleep 1000",
    )  # fmt: skip
    wait_for(lambda: status() == "Running", 60)
    listed = client.json("appcontainer", "list")
    assert [(each["name"], each["status"]) for each in listed] == [(name, "Running")]
    wait_for(lambda: "started hello" in client("appcontainer", "logs", name))  # it runs before it has said anything
    assert "hello" in client("appcontainer", "exec", name, "sh", "-c", "echo $GREETING")
    client("appcontainer", "set", name, "--memory", "128")
    assert client.json("appcontainer", "show", name)["memory"] == "128"
    client("appcontainer", "pause", name)
    wait_for(lambda: status() == "Paused", 60)
    client("appcontainer", "unpause", name)
    wait_for(lambda: status() == "Running", 60)
    client("appcontainer", "restart", "--timeout", "1", name)
    wait_for(lambda: status() == "Running", 60)
    client("appcontainer", "kill", name)
    wait_for(lambda: status() == "Stopped", 60)
    client("appcontainer", "start", name)
    wait_for(lambda: status() == "Running", 60)
    client("appcontainer", "stop", "--timeout", "1", name)
    wait_for(lambda: status() == "Stopped", 60)
    assert client.json("appcontainer", "host", "list")[0]["cpus"] == len(discover().cpus)
    assert client.json("appcontainer", "service", "list")[0]["State"] == "up"
    assert client.json("appcontainer", "availability", "zone", "list")
    client("appcontainer", "delete", name)
    wait_for(lambda: client.json("appcontainer", "list") == [], 60)


def test_the_client_pins_and_shows_the_machine(allinone, engine):
    client, name = allinone.client, f"c-{uuid.uuid4().hex[:8]}"
    client(
        "appcontainer", "run", "--name", name, "--cpu-policy", "dedicated", "--cpu-thread-policy", "prefer",
        "--numa-nodes", "1", "--cpu", "1", "--memory", "64", "zun-demo", "sleep", "1000",
    )  # fmt: skip
    shown = allinone.api.settled(name)
    assert shown["status"] == "Running" and shown["cpu_thread_policy"] == "prefer"
    host = client.json("appcontainer", "host", "list")[0]["hostname"]
    cells = client.json("appcontainer", "host", "topology", "show", host)
    assert len(cells) == len(discover().cells)
    picture = client("appcontainer", "host", "topology", "show", host, "--map")
    assert name in picture


def test_the_client_makes_an_image_of_a_container(allinone, engine):
    client, name, image = allinone.client, f"c-{uuid.uuid4().hex[:8]}", f"made/{uuid.uuid4().hex[:8]}:1"
    client("appcontainer", "run", "--name", name, "--memory", "64", "zun-demo", "sleep", "1000")
    assert allinone.api.settled(name)["status"] == "Running"
    client("appcontainer", "exec", name, "touch", "/tmp/kept")
    said = client("appcontainer", "commit", name, image)
    (made,) = wait_for(lambda: allinone.api.get("/images")["images"])
    assert made["uuid"] in said and f"{made['repo']}:{made['tag']}" == image
    wait_for(lambda: allinone.api.get(f"/images/{made['uuid']}")["image_id"], 60)
    assert client.json("appcontainer", "image", "search", image)[0]["ID"] == made["uuid"]
    second = allinone.api.settled(allinone.api.run(image=image, cpu=0.5))
    assert second["status"] == "Running", second["status_reason"]
    listing = allinone.api.request("POST", f"/containers/{second['uuid']}/execute?command=ls%20/tmp").json()
    assert listing["output"] == "kept\n"
    assert allinone.api.get("/images/zun-demo/search")[0]["name"] == "zun-demo"  # of the host; there is no internet
    allinone.api.delete_all()
    client("appcontainer", "image", "delete", made["uuid"])
    wait_for(lambda: client.json("appcontainer", "image", "list") == [], 60)  # the image goes first, then its row
    assert not engine.images(f"zun-commit:{made['uuid']}")  # a shared daemon may have those of others


def test_it_refuses_to_be_open_to_strangers(program, tmp_path):
    settings = {"DEFAULT": {"state_path": tmp_path / "state"}, "compute": {"container_driver": "fake"}}
    code, said = program("allinone", "open", **settings, api={"host_ip": "0.0.0.0", "port": free_port()}).run_to_end()
    assert code != 0 and "allow_noauth_on_any_address" in said
    said_yes = program(
        "allinone",
        "anyway",
        **settings,
        api={"host_ip": "0.0.0.0", "port": free_port(), "allow_noauth_on_any_address": "true"},
    )
    said_yes.start()
    assert said_yes.stop() == 0
    assert os.stat(tmp_path / "state").st_mode & 0o077 == 0


@pytest.mark.parametrize(("group", "option"), [("api", "port"), ("websocket_proxy", "wsproxy_port")])
def test_it_ends_when_one_of_its_parts_cannot_start(program, tmp_path, group, option):
    """Parts that have started must not keep the program alive, since nothing would restart it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = {
            "DEFAULT": {"state_path": tmp_path / "state"},
            "api": {"port": free_port()},
            "compute": {"container_driver": "fake"},
        }
        settings.setdefault(group, {})[option] = taken.getsockname()[1]
        code, said = program("allinone", **settings).run_to_end()
    assert code == 1 and "in use" in said
