# SPDX-License-Identifier: Apache-2.0
"""The audit on a real Docker daemon and the real kernel: everything that it can find is made, and seen in one pass.

Others may use the same daemon at the same time. What they run may well be foreign on a CPU of ours, so that these tests
look for their own containers in what is found.
"""

import pathlib
import subprocess
import uuid

import pytest

from zun.container.docker.client import ask
from zun.tests.fixtures import wait_for
from zun.tests.integration.host import Host, group_of
from zun.tests.integration.programs import Api, Client
from zun.topology import CpuSet, discover

pytestmark = [pytest.mark.docker, pytest.mark.in_turn]

DEDICATED = {"cpu_policy": "dedicated", "cpu": 1.0, "memory": 64}
SHARED = {"cpu": 0.5, "memory": 64}


@pytest.fixture
def host(docker_url, database):
    made = Host(docker_url)
    yield made
    made.clean()


@pytest.fixture
def everywhere():
    return str(discover().cpus)


def elsewhere(container):
    """A CPU that the container was not given."""
    return str(min(discover().cpus - CpuSet(container.cpuset["cpuset_cpus"])))


def by_hand(host, container, cpus):
    host.cpus_file(container).write_text(cpus)
    return "cgroup"


def out_of_band(host, container, cpus):
    host.engine.update_container(f"zun-{container.uuid}", cpuset_cpus=cpus)
    return "config"


def out_of_band_and_restarted(host, container, cpus):
    out_of_band(host, container, cpus)
    host.engine.restart(f"zun-{container.uuid}", timeout=0)
    return "config"


@pytest.mark.parametrize("change", [by_hand, out_of_band, out_of_band_and_restarted])
@pytest.mark.parametrize("where", ["wider", "elsewhere"])
def test_drift_is_seen_in_one_pass_and_repaired_once(host, everywhere, change, where):
    shared, dedicated = host.run(**SHARED), host.run(**DEDICATED)
    planned = dedicated.cpuset["cpuset_cpus"]
    assert host.told(repair=True) == []
    before = host.updates()  # the shared container left the dedicated CPU
    layer = change(host, dedicated, everywhere if where == "wider" else elsewhere(dedicated))
    made = host.updates()
    assert host.told() == [(dedicated.uuid, "drifted", layer, False)]
    assert host.updates() == made, "a report changes nothing"
    pid = host.pid(dedicated)
    assert host.told(repair=True) == [(dedicated.uuid, "drifted", layer, True)]
    assert (host.cpus_file(dedicated).read_text().strip(), host.config(dedicated)) == (planned, planned)
    assert host.told(repair=True) == []
    assert host.updates() == [*made, dedicated.uuid], "one update, of the one that drifted"
    assert made.count(shared.uuid) == before.count(shared.uuid)
    assert host.pid(dedicated) == pid


def test_a_shared_container_is_put_back_to_the_pool(host, everywhere):
    shared, dedicated = host.run(**SHARED), host.run(**DEDICATED)
    made = host.updates()
    by_hand(host, shared, everywhere)
    assert host.told(repair=True) == [(shared.uuid, "drifted", "cgroup", True)]
    assert not CpuSet(host.cpus_file(shared).read_text()) & CpuSet(dedicated.cpuset["cpuset_cpus"])
    assert host.told(repair=True) == []
    assert host.updates() == [*made, shared.uuid]


@pytest.mark.parametrize("option", [{"NanoCpus": 500_000_000}, {"CpuQuota": 50_000}], ids=["--cpus", "--cpu-quota"])
def test_a_limit_of_dedicated_cpus_is_lifted(host, option):
    """Also for the next start of the container."""
    if len(discover().cpus) < 2:
        pytest.skip("what docker update --cpus has set cannot be lifted where it may be as much as there is")
    dedicated = host.run(**DEDICATED)
    ask(host.engine, "POST", f"/containers/zun-{dedicated.uuid}/update", json=option)
    pid = host.pid(dedicated)
    assert (host.quota(dedicated), host.told()) == (50_000, [(dedicated.uuid, "drifted", "limit", False)])
    assert host.told(repair=True) == [(dedicated.uuid, "drifted", "limit", True)]
    assert (host.quota(dedicated), host.pid(dedicated), host.told()) == (None, pid, [])
    host.engine.restart(f"zun-{dedicated.uuid}", timeout=0)
    quota = host.quota(dedicated)
    assert (quota is None or quota > 100_000) and host.told() == []


def test_a_restart_alone_is_compliant(host, everywhere):
    """Values written by hand are gone with the old process; the audit reads the new one."""
    dedicated = host.run(**DEDICATED)
    by_hand(host, dedicated, everywhere)
    before = host.pid(dedicated)
    host.engine.restart(f"zun-{dedicated.uuid}", timeout=0)
    assert host.pid(dedicated) != before
    assert host.told(repair=True) == []
    assert host.updates() == []


def test_a_stopped_container_is_held_to_its_configuration(host, everywhere):
    dedicated = host.run(**DEDICATED)
    host.engine.kill(f"zun-{dedicated.uuid}")
    out_of_band(host, dedicated, everywhere)
    assert host.told(repair=True) == [(dedicated.uuid, "drifted", "config", True)]
    assert host.config(dedicated) == dedicated.cpuset["cpuset_cpus"]


def test_a_container_that_is_not_ours_on_a_dedicated_cpu(host):
    dedicated = host.run(**DEDICATED)
    harmless = host.stray(elsewhere(dedicated))
    assert host.told() == []
    stray = host.stray()
    (finding,) = host.audit(repair=True)
    assert (finding["container"], finding["code"], finding["layer"], finding["repaired"]) == (
        dedicated.uuid,
        "foreign",
        "container",
        False,
    )
    assert stray[:12] in finding["detail"] and harmless[:12] not in finding["detail"]
    assert host.engine.inspect_container(stray)["HostConfig"]["CpusetCpus"] == "", "it is not ours to change"
    host.engine.remove_container(host.strays.pop(), force=True)
    assert host.told() == []
    assert host.updates() == []


def test_a_process_of_the_host_that_was_put_on_a_dedicated_cpu(host):
    dedicated = host.run(**DEDICATED)
    cpus = dedicated.cpuset["cpuset_cpus"]
    with subprocess.Popen(["taskset", "-c", cpus, "sleep", "1000"]) as process:
        try:
            host.strays.append(f"({process.pid})")
            wait_for(lambda: pathlib.Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
            assert (dedicated.uuid, "foreign", "process", False) in host.told()
        finally:
            process.kill()
            host.strays.pop()


def test_a_thread_that_pinned_itself(host):
    one = min(discover().cpus)
    command = ["sh", "-c", f"taskset {1 << one:x} sleep 1000 & exec sleep 1001"]
    container = host.run(**SHARED, command=command)
    wait_for(lambda: host.told())
    (finding,) = host.audit(repair=True)
    assert (finding["container"], finding["code"], finding["repaired"]) == (container.uuid, "self-pinned", False)
    assert "1 thread narrowed" in finding["detail"] and f"on CPUs {one}" in finding["detail"]
    assert host.updates() == []


def test_a_process_that_was_moved_out_of_its_group(host):
    dedicated = host.run(**DEDICATED)
    group = group_of(host.pid(dedicated))
    top = group.parents[1] / "tasks"
    if not top.exists():
        pytest.skip("version 2 has one hierarchy: whoever leaves it is no member of the container any more")
    top.write_text(str(host.pid(dedicated)))
    (finding,) = host.audit(repair=True)
    assert (finding["container"], finding["code"], finding["layer"], finding["repaired"]) == (
        dedicated.uuid, "drifted", "thread", False,
    )  # fmt: skip
    assert "restart the container" in finding["repair"]
    assert host.updates() == []


@pytest.fixture
def parent_group():
    """The name of a parent control group of this test's own: nobody else's may be touched."""
    name = f"zun-test-{uuid.uuid4().hex[:8]}"
    if not pathlib.Path("/sys/fs/cgroup/cpuset").exists():
        pytest.skip("only version 1 takes a CPU from a group for good")
    yield name
    for left in pathlib.Path("/sys/fs/cgroup").glob(f"*/{name}"):
        left.rmdir()


@pytest.mark.skipif(len(discover().cpus) < 2, reason="a hole leaves something")
def test_a_parent_group_that_lost_a_cpu(parent_group, docker_url, database, everywhere):
    """A CPU went offline and came back: the kernel took it from Docker's group and from the container."""
    host = Host(docker_url)
    try:
        mine, lost = str(uuid.uuid4()), str(max(discover().cpus))
        # The driver adopts what an earlier attempt left behind, which is how it comes by another parent group.
        host.engine.create_container(
            "zun-demo", ["sleep", "1000"], name=f"zun-{mine}", labels={"zun.uuid": mine, "zun.host": host.name},
            host_config=host.engine.create_host_config(
                network_mode="none", cgroup_parent=f"/{parent_group}", mem_limit=f"{SHARED['memory']}m",
                cpu_shares=int(SHARED["cpu"] * 1024),
            ),
        )  # fmt: skip
        container = host.run(**SHARED, uuid=mine)
        group = group_of(host.pid(container))
        assert group.parent.name == parent_group
        assert host.told() == []
        for each in (group, group.parent):
            (each / "cpuset.cpus").write_text(str(CpuSet(everywhere) - CpuSet(lost)))
        made = host.updates()
        (finding,) = host.audit(repair=True)
        assert (finding["code"], finding["repaired"]) == ("cgroup-hole", False)
        assert f"{group.parent} lacks CPUs {lost}" in finding["detail"]
        assert host.updates() == made
        (group.parent / "cpuset.cpus").write_text(everywhere)
        assert host.told(repair=True) == [(mine, "drifted", "cgroup", True)]
        assert (group / "cpuset.cpus").read_text().strip() == everywhere
        assert host.updates() == [*made, mine]
    finally:
        host.clean()


def test_what_the_kernel_tells_of_a_container(host):
    container = host.run(**DEDICATED)
    state = host.driver.show(container)
    # Docker says that it runs while it is still runc, which has several threads.
    wait_for(lambda: pathlib.Path(f"/proc/{state.pid}/comm").read_text() == "sleep\n")
    view = host.driver.pinning_view(container, state)
    assert (str(view.cgroup_cpus), str(view.cgroup_mems)) == (state.cpuset_cpus, state.cpuset_mems)
    assert [(each.cpus, each.count, each.tid, each.name) for each in view.threads] == [
        (view.cgroup_cpus, 1, state.pid, "sleep")
    ]
    assert all(view.cgroup_cpus <= parent.cpus for parent in view.parents) and len(view.parents) >= 1
    assert CpuSet(view.pages) <= CpuSet([cell.id for cell in discover().cells])
    # The kernel adds up what a group has every two seconds.
    wait_for(lambda: sum(host.driver.pinning_view(container, state).pages.values()) > 0)


def test_through_the_api_and_the_client(on_docker, engine):
    service = on_docker(compute={"audit_interval": 0})
    service.start()
    api, client, name = Api(service.url), Client(service.url), service.host
    try:
        # Without a dedicated container nobody can be foreign, whatever others run here.
        shown = api.settled(api.run(cpu=0.5))
        assert shown["status"] == "Running", shown["status_reason"]
        assert client.json("appcontainer", "host", "audit", name) == []
        pid = engine.inspect_container(f"zun-{shown['uuid']}")["State"]["Pid"]
        (group_of(pid) / "cpuset.cpus").write_text(str(min(discover().cpus)))
        said = client("appcontainer", "host", "audit", name, "-f", "csv", "-c", "Code", "-c", "Container", fails=True)
        assert f'"drifted","{shown["uuid"]}"' in said
        answer = api.request("POST", f"/hosts/{name}/audit", json={"repair": True}).json()
        assert [(each["code"], each["container"], each["repaired"]) for each in answer["findings"]] == [
            ("drifted", shown["uuid"], True)
        ]
        assert (answer["host"], answer["containers"]) == (name, {"ok": 0, "drifted": 1})
        assert (answer["totals"]["drifted"], answer["totals"]["repaired"]) == (1, 1)
        assert client.json("appcontainer", "host", "audit", "--repair", name) == []
        assert api.request("POST", "/hosts/nobody/audit").status_code == 404
    finally:
        api.delete_all()
        service.stop()
