# SPDX-License-Identifier: Apache-2.0
"""The commands against a real HTTP server: what they send, and what they print."""

import io
import json
import os
import subprocess
import sys
import types
from typing import Any

import pytest
from osc_lib import exceptions
from zunclient import exceptions as zun_exceptions
from zunclient.common.apiclient import exceptions as zun_api_exceptions
from zunclient.osc.v1 import containers as stock
from zunclient.v1 import client as zun_client

from zun.osc import actions, aggregates, capsules, containers, groups, hosts, networks, quotas, volumes
from zun.tests.functional.osc.recorder import Asked, Recorder, client, serving

CONTAINER = {"uuid": "c-1", "name": "web", "status": "Running"}
CREATED = {
    ("POST", "/v1/containers"): (202, CONTAINER),
    ("POST", "/v1/containers?run=true"): (202, CONTAINER),
}
TOPOLOGY = {
    "host": "h1",
    "generation": 3,
    "cells": [{"id": 0, "cpus": "0-1", "cores": ["0", "1"], "memory_mib": 512, "memory_used_mib": 64}],
    "claims": [
        {
            "container": "c-1",
            "name": "web",
            "cpu_policy": "dedicated",
            "cpuset_cpus": "1",
            "withheld": "",
            "cpuset_mems": "0",
            "memory_mib": {"0": 64},
        }
    ],
}
# What python-zunclient sends with no option at all.
PLAIN = {"image": "busybox", "command": [], "auto_remove": False}
PLAIN |= {"environment": {}, "labels": {}, "hints": {}, "nets": [], "mounts": []}


def run(command: Any, server: Recorder, *argv: str, client: zun_client.Client | None = None) -> str:
    """Run a command class as the shell does and return what it printed."""
    app = types.SimpleNamespace(
        stdout=io.StringIO(),
        client_manager=types.SimpleNamespace(container=client or globals()["client"](server)),
    )
    instance = command(app, None)
    assert instance.run(instance.get_parser("openstack").parse_args(argv)) == 0
    return app.stdout.getvalue()


@pytest.mark.parametrize(
    ("command", "path"),
    [(containers.CreateContainer, "/v1/containers"), (containers.RunContainer, "/v1/containers?run=true")],
)
def test_placement_fields_travel_at_their_microversion(command, path):
    argv = ["--cpu", "4", "--memory", "1024", "--cpu-policy", "dedicated", "--cpu-thread-policy", "require"]
    argv += ["--cpu-isolation", "core"]
    argv += ["--numa-nodes", "2", "--numa-cpus", "1,3", "--numa-mem", "512,512", "--numa-affinity", "prefer"]
    argv += ["--numa-mempolicy", "preferred", "--mem-page-size", "2048", "busybox", "sleep", "9"]
    with serving(CREATED) as server:
        printed = run(command, server, *argv)

    body = PLAIN | {
        "command": ["sleep", "9"],
        "cpu": "4",
        "memory": "1024",
        "cpu_policy": "dedicated",
        "cpu_thread_policy": "require",
        "cpu_isolation": "core",
        "numa_nodes": 2,
        "numa_affinity": "prefer",
        "numa_cpus": [1, 3],
        "numa_mem": [512, 512],
        "numa_mempolicy": "preferred",
        "mem_page_size": 2048,
    }
    assert server.asked_of_v1 == [Asked("POST", path, "1.41", body)]
    assert "c-1" in printed


@pytest.mark.parametrize(
    ("argv", "hints"),
    [
        (["--group", "web"], {"group": "web"}),
        (["--group", "web", "--hint", "a=b,c=d"], {"group": "web", "a": "b", "c": "d"}),
        (["--hint", "group=web"], {"group": "web"}),
        (["--hint", "same_host=x", "--hint", "same_host=y"], {"same_host": ["x", "y"]}),
        (["--hint", "different_host=x"], {"different_host": "x"}),
        (["--hint", "image:os_type=linux"], {"image:os_type": "linux"}),
    ],
)
def test_hints_that_name_something_travel_at_their_microversion(argv, hints):
    with serving(CREATED, max_version="1.42") as server:
        run(containers.CreateContainer, server, *argv, "--cpu-policy", "shared", "busybox")

    body = PLAIN | {"cpu_policy": "shared", "hints": hints}
    assert server.asked_of_v1 == [Asked("POST", "/v1/containers", "1.42", body)]


@pytest.mark.parametrize(
    ("command", "argv", "feature"),
    [
        (containers.CreateContainer, ["--group", "web", "busybox"], "--group"),
        (containers.RunContainer, ["--cpu-policy", "shared", "--hint", "same_host=x", "b"], "--cpu-policy, --hint"),
        (groups.ListGroups, [], "appcontainer group list"),
        (groups.DeleteGroup, ["web"], "appcontainer group delete"),
        (aggregates.CreateAggregate, ["ssd"], "appcontainer aggregate create"),
        (aggregates.AddHost, ["ssd", "h1"], "appcontainer aggregate add host"),
        (networks.ListNetworks, [], "appcontainer network list"),
        (networks.CreateNetwork, ["backend"], "appcontainer network create"),
    ],
)
def test_a_server_without_groups_is_told_of_and_not_tried(command, argv, feature):
    with (
        serving(CREATED, max_version="1.41") as server,
        pytest.raises(exceptions.CommandError) as caught,
    ):
        run(command, server, *argv)

    assert str(caught.value).startswith(
        f"{feature} needs a container service with API microversion 1.42 or later, and this one ends at 1.41."
    )
    assert server.asked_of_v1 == []


def test_a_list_has_every_page():
    item = {"uuid": "g-1", "name": "web", "policy": "affinity", "rules": {}, "members": []}
    following = "http://elsewhere:1/v1/groups?limit=1&marker=g-1"
    answers = {
        ("GET", "/v1/groups?all_projects=true"): (200, {"groups": [item], "next": following}),
        ("GET", "/v1/groups?limit=1&marker=g-1"): (200, {"groups": [item | {"uuid": "g-2"}], "next": None}),
    }
    with serving(answers, max_version="1.42") as server:
        printed = run(groups.ListGroups, server, "--all-projects", "-f", "value", "-c", "uuid")

    assert printed.split() == ["g-1", "g-2"]
    assert {one.version for one in server.asked_of_v1} == {"1.42"}


def test_names_of_groups_and_aggregates_are_quoted():
    for command in (groups.ShowGroup, aggregates.ShowAggregate):
        with serving(max_version="1.42") as server, pytest.raises(zun_exceptions.NotFound):
            run(command, server, "a/b?")
        assert [one.path.rpartition("/")[2] for one in server.asked_of_v1] == ["a%2Fb%3F"]


@pytest.mark.parametrize("version", ["1.40", "1.20"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (containers.CreateContainer, stock.CreateContainer),
        (containers.RunContainer, stock.RunContainer),
    ],
)
def test_without_placement_the_stock_request_is_sent(ours, theirs, version):
    argv = ["--name", "web", "--cpu", "0.5", "--label", "a=b", "--hint", "label:disk=ssd", "busybox", "sh"]
    with serving(CREATED, max_version=version) as server:
        run(theirs, server, *argv, client=client(server, version))
        run(ours, server, *argv, client=client(server, version))

    first, second = server.asked
    assert second == first
    assert first.version == version


def test_the_session_goes_back_to_its_own_version():
    with serving(CREATED) as server:
        shared = client(server, "1.30")
        run(containers.CreateContainer, server, "--cpu-policy", "shared", "busybox", client=shared)
        run(containers.CreateContainer, server, "busybox", client=shared)

    assert [(one.version, one.body.get("cpu_policy")) for one in server.asked_of_v1] == [
        ("1.41", "shared"),
        ("1.30", None),
    ]


@pytest.mark.parametrize(
    ("argv", "patch"),
    [
        (["--cpu", "2", "--keep-cpus", "1,3"], {"cpu": "2", "keep_cpus": "1,3"}),
        (["--keep-cpus", "1-3"], {"memory": "64", "keep_cpus": "1-3"}),
        (
            ["--cpu-policy", "dedicated", "--memory", "96", "--keep-cpus", "3"],
            {"memory": "96", "cpu_policy": "dedicated", "keep_cpus": "3"},
        ),
    ],
)
def test_a_container_is_told_which_cpus_stay(argv, patch):
    answer = (200, {**CONTAINER, "memory": "64"})
    with serving({(method, "/v1/containers/web"): answer for method in ("GET", "PATCH")}) as server:
        run(containers.UpdateContainer, server, *argv, "web")

    asked = server.asked_of_v1[-1]
    assert (asked.method, asked.version, asked.body) == ("PATCH", "1.41", patch)


def test_wait_reads_the_container_at_the_same_version():
    running = CONTAINER | {"status": "Running", "cpuset_cpus": "1"}
    answers = CREATED | {("GET", "/v1/containers/c-1"): (200, running)}
    answers[("POST", "/v1/containers?run=true")] = (202, running | {"status": "Creating", "cpuset_cpus": None})
    with serving(answers) as server:
        printed = run(containers.RunContainer, server, "--wait", "--cpu-policy", "dedicated", "busybox")

    assert {(one.method, one.version) for one in server.asked_of_v1} == {("POST", "1.41"), ("GET", "1.41")}
    held = next(line for line in printed.splitlines() if "cpuset_cpus" in line)
    assert held.split("|")[2].strip() == "1"


@pytest.mark.parametrize(
    ("command", "argv", "option"),
    [
        (containers.CreateContainer, ["--cpu-policy", "dedicated", "busybox"], "--cpu-policy"),
        (
            containers.RunContainer,
            ["--numa-nodes", "2", "--numa-mem", "1,1", "x"],
            "--numa-nodes, --numa-mem",
        ),
        (containers.ShowContainer, ["--placement", "web"], "--placement"),
        (hosts.ShowHostTopology, ["h1"], "appcontainer host topology show"),
    ],
)
def test_an_older_server_is_told_of_and_not_tried(command, argv, option):
    with (
        serving(CREATED, max_version="1.40") as server,
        pytest.raises(exceptions.CommandError) as caught,
    ):
        run(command, server, *argv)

    assert str(caught.value) == (
        f"{option} needs a container service with API microversion 1.41 or later, and this one ends at 1.40. "
        "Upgrade the service, or leave the option out."
    )
    assert server.asked_of_v1 == []


def test_the_answer_of_the_server_reaches_the_user():
    refusal = {"errors": [{"title": "Bad Request", "detail": "cpu must be a whole number", "status": 400}]}
    with (
        serving({("POST", "/v1/containers"): (400, refusal)}) as server,
        pytest.raises(zun_exceptions.BadRequest) as caught,
    ):
        run(containers.CreateContainer, server, "--cpu", "1.5", "--cpu-policy", "dedicated", "busybox")

    assert "Bad Request" in str(caught.value)
    assert "cpu must be a whole number" in caught.value.details


def test_show_asks_for_the_placement_only_when_told():
    held = CONTAINER | {"addresses": {}, "cpuset_cpus": "1"}
    with serving({("GET", "/v1/containers/web?all_projects=False"): (200, held)}) as server:
        run(containers.ShowContainer, server, "web")
        run(containers.ShowContainer, server, "--placement", "web")

    assert [one.version for one in server.asked_of_v1] == ["1.40", "1.41"]


def test_show_asks_the_host_for_the_last_minute_only_when_told():
    answers = {
        ("GET", "/v1/containers/web?all_projects=False"): (200, CONTAINER | {"addresses": {}}),
        ("GET", "/v1/containers/web/stats"): (200, {"MEM": 1, "last_minute": {"seconds": 60.0, "switches": 4711}}),
    }
    with serving(answers, max_version="1.51") as server:
        assert "4711" not in run(containers.ShowContainer, server, "web")
        assert "4711" in run(containers.ShowContainer, server, "--last-minute", "web")

    assert [one.path.rpartition("/")[2] for one in server.asked_of_v1][2:] == ["stats"]
    assert server.asked_of_v1[-1].version == "1.51"


def test_published_ports_are_shown_when_they_are_asked_for():
    published = {"80/tcp": {"host_ip": "192.0.2.17", "host_port": 30412}}
    shown = CONTAINER | {"addresses": {}, "published_ports": published}
    answers = {
        ("GET", "/v1/containers/web?all_projects=False"): (200, shown),
        ("GET", "/v1/capsules/web"): (200, shown),
    }
    with serving(answers, max_version="1.42") as server:
        for command in (containers.ShowContainer, capsules.ShowCapsule):
            run(command, server, "web")
            assert "30412" in run(command, server, "--published-ports", "web")

    assert [one.version for one in server.asked_of_v1] == ["1.40", "1.42"] * 2


def test_mounts_of_the_newest_version():
    given = ["type=local,size=64M,destination=/t", "source=data,destination=/u,read_only=true"]
    options = [word for mount in given for word in ("--mount", mount)]
    with serving(CREATED, max_version="1.46") as server:
        run(containers.RunContainer, server, *options, "busybox")
    (one,) = server.asked_of_v1
    assert (one.version, one.body["mounts"]) == (
        "1.46",
        [
            {"type": "local", "size": "64M", "destination": "/t"},
            {"source": "data", "destination": "/u", "read_only": True},
        ],
    )


def test_mounts_that_the_stock_client_refuses(tmp_path):
    path = tmp_path / "app.conf"
    path.write_text("a=1")
    old = [f"type=bind,source={path},destination=/etc/app.conf", "source=data,destination=/d", "size=2,destination=/s"]
    new = ["type=tmpfs,size=64M,destination=/t", "size=512M,destination=/u"]
    known = [
        {"type": "bind", "source": "YT0x", "destination": "/etc/app.conf"},
        {"source": "data", "destination": "/d"},
        {"size": "2", "destination": "/s"},
    ]
    more = [{"type": "tmpfs", "size": "64M", "destination": "/t"}, {"size": "512M", "destination": "/u"}]
    with serving(CREATED, max_version="1.42") as server:
        for given in (old, [*old, *new], new[1:]):
            options = [word for mount in given for word in ("--mount", mount)]
            run(containers.RunContainer, server, *options, "busybox", "true")
        with pytest.raises(zun_api_exceptions.CommandError, match="Invalid mounts"):
            run(containers.RunContainer, server, "--mount", "type=tmpfs,destination=/t", "busybox")

    assert [(one.version, one.body["mounts"]) for one in server.asked_of_v1] == [
        ("1.40", known),
        ("1.42", [*known, *more]),
        ("1.42", more[1:]),
    ]


def test_topology_table():
    with serving({("GET", "/v1/hosts/h1/topology"): (200, TOPOLOGY)}) as server:
        printed = run(hosts.ShowHostTopology, server, "-f", "value", "h1")

    assert server.asked_of_v1 == [Asked("GET", "/v1/hosts/h1/topology", "1.41", None)]
    assert printed.split() == ["0", "0-1", "0", "1", "512", "64", "448", "0", "web", "1"]


def test_topology_table_names_every_holder():
    cells = [{"id": each, "cpus": cpus, "cores": [], "memory_mib": 512} for each, cpus in ((0, "0-1"), (1, "2-3"))]
    claims = [
        {"container": "c-1", "name": "web", "cpu_policy": "dedicated", "cpuset_cpus": "1", "cpuset_mems": "0-1"},
        {"container": "c-2", "name": "", "cpu_policy": "dedicated", "cpuset_cpus": "2", "cpuset_mems": "1"},
        {"container": "c-3", "name": "log", "cpu_policy": "shared", "cpuset_cpus": "0,3", "cpuset_mems": "0"},
    ]
    document = {"host": "h1", "cells": cells, "claims": claims}
    with serving({("GET", "/v1/hosts/h1/topology"): (200, document)}) as server:
        printed = run(hosts.ShowHostTopology, server, "-f", "value", "-c", "Held By", "h1")
    assert printed.splitlines() == ["web 1; log (shared)", "web (memory); c-2 2; log (shared)"]


def test_host_show_tells_the_engine():
    engine = {"name": "Docker", "version": "28.5.2", "away": None}
    answers = {("GET", "/v1/hosts/h1"): (200, {"hostname": "h1", "cpus": 8, "engine": engine})}
    with serving(answers, max_version="1.47") as server:
        shown = json.loads(run(hosts.ShowHost, server, "-f", "json", "h1"))
    assert shown == {
        "hostname": "h1", "cpus": 8, "engine_name": "Docker", "engine_version": "28.5.2", "engine_away": None
    }  # fmt: skip


def test_host_show_of_an_older_server_has_no_engine():
    with serving({("GET", "/v1/hosts/h1"): (200, {"hostname": "h1"})}, max_version="1.46") as server:
        assert json.loads(run(hosts.ShowHost, server, "-f", "json", "h1")) == {"hostname": "h1"}


def test_topology_lists_devices():
    gpu = {
        "address": "0000:81:00.0", "cell": 1, "vendor_id": "10de", "product_id": "20b0", "class_id": "030200",
        "resource_class": "CUSTOM_GPU", "type": "type-PCI", "switch": None, "physical_network": None, "interfaces": [],
        "nodes": [], "links": ["0000:82:00.0"], "nearest_cells": [1], "memory_node": None,
        "shared": 4, "holders": 2,
    }  # fmt: skip
    answers = {("GET", "/v1/hosts/h1/topology"): (200, TOPOLOGY | {"devices": [gpu]})}
    with serving(answers, max_version="1.47") as server:
        printed = run(hosts.ShowHostTopology, server, "--devices", "-f", "value", "h1")

    assert [one.version for one in server.asked_of_v1] == ["1.47"]
    assert printed.split() == ["0000:81:00.0", "PCI", "CUSTOM_GPU", "2", "of", "4", "1", "1", "0000:82:00.0"]


def test_topology_map_is_plain_off_a_terminal():
    with serving({("GET", "/v1/hosts/h1/topology"): (200, TOPOLOGY)}) as server:
        printed = run(hosts.ShowHostTopology, server, "--map", "h1")

    assert "│ 0 . │ 1 A │" in printed
    assert "A  web (c-1)  CPUs 1  cell 0  64 MiB" in printed
    assert "\x1b" not in printed


def test_host_names_are_quoted():
    with (
        serving() as server,
        pytest.raises(zun_exceptions.NotFound),
    ):
        run(hosts.ShowHostTopology, server, "rack 1/h1?")

    assert [one.path for one in server.asked_of_v1] == ["/v1/hosts/rack%201%2Fh1%3F/topology"]


def shell(server: Recorder, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the installed ``openstack`` program, without keystone."""
    program = os.path.join(os.path.dirname(sys.executable), "openstack")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    environment["PYTHONIOENCODING"] = "ascii"
    return subprocess.run(
        [program, "--os-auth-type", "none", "--os-endpoint", server.endpoint, *argv],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_program_runs_our_commands_without_keystone():
    answers = CREATED | {("GET", "/v1/hosts/h1/topology"): (200, TOPOLOGY)}
    with serving(answers) as server:
        argv = ["--cpu", "1", "--memory", "64", "--cpu-policy", "dedicated", "busybox", "sleep", "9"]
        created = shell(server, "appcontainer", "run", *argv)
        drawn = shell(server, "appcontainer", "host", "topology", "show", "--map", "h1")

    assert (created.returncode, created.stderr) == (0, "")
    assert (drawn.returncode, drawn.stderr) == (0, "")
    assert "| 0 . | 1 A |" in drawn.stdout, "boxes are drawn in ASCII where the terminal has nothing else"
    assert [(one.path, one.version) for one in server.asked_of_v1] == [
        ("/v1/containers?run=true", "1.41"),
        ("/v1/hosts/h1/topology", "1.41"),
    ]
    assert server.asked_of_v1[0].body["cpu_policy"] == "dedicated"


def test_the_program_leaves_other_services_as_they_are():
    with serving({("GET", "/v1/containers"): (200, {"containers": []})}, max_version="1.40") as server:
        listed = shell(server, "appcontainer", "list")
        refused = shell(server, "appcontainer", "create", "--cpu-policy", "dedicated", "busybox")

    assert (listed.returncode, listed.stderr) == (0, "")
    assert refused.returncode == 1
    assert "microversion 1.41" in refused.stderr
    assert [(one.path, one.version) for one in server.asked_of_v1] == [("/v1/containers", "1.40")]


NETWORK = {
    "uuid": "n-1",
    "name": "backend",
    "project_id": "p-1",
    "shared": False,
    "subnets": [{"uuid": "s-1", "cidr": "10.1.0.0/24", "gateway": "10.1.0.1"}],
    "created_at": "2026-03-04 12:00:00",
}


@pytest.mark.parametrize(
    ("argv", "body"),
    [
        ([], {}),
        (["--project", "p-1", "--share"], {"project_id": "p-1", "shared": True}),
        (
            ["--subnet", "cidr=10.1.0.0/24,gateway=10.1.0.9", "--subnet", "cidr=fd00::/64"],
            {"subnets": [{"cidr": "10.1.0.0/24", "gateway": "10.1.0.9"}, {"cidr": "fd00::/64"}]},
        ),
    ],
)
def test_networks_are_created(argv, body):
    with serving({("POST", "/v1/networks"): (200, NETWORK)}, max_version="1.42") as server:
        printed = run(networks.CreateNetwork, server, "backend", *argv)
    assert server.asked_of_v1 == [Asked("POST", "/v1/networks", "1.42", {"name": "backend", **body})]
    assert "10.1.0.0/24" in printed


VOLUME = {"uuid": "v-1", "name": "data", "status": "Available", "project_id": "p-1", "host": None}
VOLUME |= {"created_at": "2026-01-31 12:00:00"}


def test_volumes_are_listed_shown_and_deleted():
    answers = {
        ("GET", "/v1/volumes?all_projects=true"): (200, {"volumes": [VOLUME], "next": None}),
        ("GET", "/v1/volumes/data"): (200, VOLUME),
        ("DELETE", "/v1/volumes/data"): (204, None),
    }
    with serving(answers, max_version="1.43") as server:
        listed = run(volumes.ListVolumes, server, "--all-projects", "-f", "value")
        shown = run(volumes.ShowVolume, server, "data", "-f", "value", "-c", "uuid")
        run(volumes.DeleteVolume, server, "data")
    assert {one.version for one in server.asked_of_v1} == {"1.43"}
    assert (listed.split(), shown.split()) == (["v-1", "data", "Available", "p-1", "None"], ["v-1"])


@pytest.mark.parametrize(("options", "version", "body"), [
    pytest.param(["--cpu", "2"], "1.40", {"cpu": "2"}, id="known-to-the-stock-client"),
    pytest.param(["--cpu", "2", "--ports", "-1"], "1.43", {"cpu": "2", "ports": "-1"}, id="newer"),
    pytest.param(
        ["--device", "gpu=4", "--device", "CUSTOM_NIC=-1"], "1.46", {"device:gpu": "4", "device:CUSTOM_NIC": "-1"},
        id="devices",
    ),
])
def test_quota_update_sends_the_limits_given(options, version, body):
    with serving({("PUT", "/v1/quotas/p"): (200, {"cpu": 2})}, max_version="1.46") as server:
        run(quotas.UpdateQuota, server, *options, "p")
    (asked,) = server.asked_of_v1
    assert (asked.version, asked.body) == (version, body)


def test_quota_update_of_an_older_service_is_refused():
    with serving({}, max_version="1.42") as server, pytest.raises(exceptions.CommandError, match="--ports needs"):
        run(quotas.UpdateQuota, server, "--ports", "3", "p")
    with serving({}, max_version="1.45") as server, pytest.raises(exceptions.CommandError, match="--device needs"):
        run(quotas.UpdateQuota, server, "--device", "gpu=3", "p")


@pytest.mark.parametrize(("max_version", "version"), [("1.46", "1.46"), ("1.43", "1.43"), ("1.40", "1.40")])
def test_quota_get_shows_what_the_service_counts(max_version, version):
    with serving({("GET", "/v1/quotas/p"): (200, {"ports": 9, "device:gpu": 4})}, max_version=max_version) as server:
        shown = run(quotas.GetQuota, server, "p", "-f", "value", "-c", "ports", "-c", "device:gpu")
    assert {one.version for one in server.asked_of_v1} == {version}
    assert sorted(shown.split()) == ["4", "9"]


def test_networks_are_listed_shown_and_deleted():
    answers = {
        ("GET", "/v1/networks?all_projects=true"): (200, {"networks": [NETWORK], "next": None}),
        ("GET", "/v1/networks/backend"): (200, NETWORK),
        ("DELETE", "/v1/networks/backend"): (204, None),
    }
    with serving(answers, max_version="1.42") as server:
        listed = run(networks.ListNetworks, server, "--all-projects", "-f", "value")
        shown = run(networks.ShowNetwork, server, "backend", "-f", "value", "-c", "name")
        run(networks.DeleteNetwork, server, "backend")
    assert (listed.split(), shown.split()) == (["n-1", "backend", "p-1", "False", "10.1.0.0/24"], ["backend"])


@pytest.mark.parametrize(
    ("version", "item"),
    [
        ("1.17", {"ip_address": "10.1.0.2"}),
        ("1.40", {"fixed_ips": [{"ip_address": "10.1.0.2"}, {"ip_address": "fd00::2"}]}),
    ],
)
def test_container_networks_are_listed_at_stock_microversion(version, item):
    path, items = "/v1/containers/web/network_list", [{"net_id": "n", "port_id": "p", **item}]
    with serving({("GET", path): (200, {"networks": items})}, max_version=version) as server:
        printed = run(networks.ListNetworks, server, "web", "-f", "value", client=client(server, version))
    assert [(one.path, one.version) for one in server.asked_of_v1] == [(path, version)]
    assert printed.split()[:3] == ["n", "p", "10.1.0.2" if version == "1.17" else "10.1.0.2,"]


CAPSULE = {"uuid": "k-1", "name": "web", "status": "Creating", "addresses": {}}
TEMPLATE = "kind: capsule\nmetadata: {name: web}\nspec: {containers: [{image: busybox}]%s}\n"


MEMBER = {"uuid": "m-1", "name": "capsule-web-nginx", "status": "Running", "status_detail": "ready", "cpu": 2}


@pytest.mark.parametrize(("argv", "whole"), [([], False), (["-f", "json"], True)], ids=["table", "json"])
def test_container_is_one_line_of_the_table(argv, whole, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = {**CAPSULE, "containers": [MEMBER, {**MEMBER, "uuid": "m-2", "status_detail": None}]}
    with serving({("GET", "/v1/capsules/web"): (200, shown)}) as server:
        text = run(capsules.ShowCapsule, server, "web", *argv)
    assert ("m-1 capsule-web-nginx Running ready " in text) is not whole
    assert ("m-2 capsule-web-nginx Running " in text) is not whole
    assert ('"cpu": 2' in text) is whole


@pytest.mark.parametrize(
    ("more", "version"),
    [
        ("", "1.40"),
        (", placement: {}", "1.40"),
        (", placement: {cpu_policy: dedicated}", "1.41"),
        (", initContainers: [{image: busybox, devices: [{alias: gpu}]}]", "1.46"),
        (", placement: {same: l3}", "1.51"),
        (", initContainers: [{image: busybox, devices: [{alias: gpu}], placement: {cpu_policy: mixed}}]", "1.51"),
    ],
)
def test_a_capsule_is_created_at_the_version_it_needs(tmp_path, more, version):
    (tmp_path / "capsule.yaml").write_text(TEMPLATE % more)
    with serving({("POST", "/v1/capsules/"): (202, CAPSULE)}, max_version="1.51") as server:
        used = client(server)
        stock = used.capsules
        assert "k-1" in run(capsules.CreateCapsule, server, "--file", f"{tmp_path}/capsule.yaml", client=used)
        assert used.capsules is stock
    (asked,) = server.asked_of_v1
    assert asked.version == version and asked.body["template"]["spec"]["containers"] == [{"image": "busybox"}]


def test_a_capsule_with_placement_needs_a_server_that_knows_it(tmp_path):
    (tmp_path / "capsule.yaml").write_text(TEMPLATE % ", placement: {cpu_policy: dedicated}")
    with serving(max_version="1.40") as server, pytest.raises(exceptions.CommandError, match=r"placement.*1\.41"):
        run(capsules.CreateCapsule, server, "--file", f"{tmp_path}/capsule.yaml")


@pytest.mark.parametrize(
    ("options", "version", "shown"),
    [([], "1.40", "c-1"), (["--client-address"], "1.42", "192.0.2.7")],
    ids=["as-stock", "address"],
)
def test_list_of_actions(options, version, shown):
    action = {"user_id": "alice", "container_uuid": "c-1", "request_id": "req-1", "action": "execute", "message": None}
    action |= {"start_time": "2026-03-04T12:00:00.000000", "client_address": "192.0.2.7"}
    path = "/v1/containers/web/container_actions"
    with serving({("GET", path): (200, {"containerActions": [action]})}, max_version="1.42") as server:
        printed = run(actions.ListActions, server, "web", *options)
        assert [(each.path, each.version) for each in server.asked_of_v1] == [(path, version)]
    assert "execute" in printed and "alice" in printed and shown in printed


def test_list_of_actions_of_an_older_service():
    with serving(max_version="1.41") as server, pytest.raises(exceptions.CommandError, match="--client-address needs"):
        run(actions.ListActions, server, "web", "--client-address")
