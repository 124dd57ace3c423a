# SPDX-License-Identifier: Apache-2.0
"""Networks: what they are made of, who sees them, and the containers in them."""

import uuid as uuids

import pytest

from zun.api import app as api_app
from zun.common import exceptions
from zun.db import container_actions, network_ports
from zun.db import containers as db_containers
from zun.db import networks as db
from zun.tests.functional.api.client import Client

NEWEST = "1.42"
NOWHERE = str(uuids.UUID(int=7))


@pytest.fixture
def add(admin_api):
    """Makes a network of project ``demo`` and gives what the answer shows of it."""

    def make(name="backend", **fields):
        reply = admin_api.at(NEWEST).post("/v1/networks", {"name": name, "project_id": "demo", **fields})
        assert reply.status == 200, reply.json
        return reply.json

    return make


@pytest.fixture
def create(api):
    """Creates a container of project ``demo``; gives its uuid."""

    def make(client=None, **fields):
        reply = (client or api).post("/v1/containers", {"image": "demo", **fields})
        assert reply.status == 202, reply.json
        return reply.json["uuid"]

    return make


def ports(container):
    return [(port["network_uuid"], port["ipv4"], port["ipv6"]) for port in network_ports.of_container(container)]


def addresses(container):
    """Return the addresses that the host writes to the row when the container joins a network."""
    made = {}
    for port in network_ports.of_container(container):
        subnet = {4: port["subnets"][0]["uuid"], 6: port["subnets"][-1]["uuid"]}
        values = [(version, port[f"ipv{version}"]) for version in (4, 6) if port[f"ipv{version}"]]
        made[port["network_uuid"]] = [
            {
                "addr": addr,
                "version": version,
                "port": port["uuid"],
                "subnet_id": subnet[version],
                "preserve_on_delete": False,
            }
            for version, addr in values
        ]
    return made


# The collection.


def test_create(admin_api):
    reply = admin_api.at("1.1").post("/v1/networks", {"name": "backend", "neutron_net_id": NOWHERE})
    made = reply.json
    assert (reply.status, made) == (
        200,
        {
            "uuid": made["uuid"],
            "name": "backend",
            "project_id": "admin",
            "user_id": "root",
            "network_id": made["uuid"],
            "neutron_net_id": NOWHERE,
        },
    )
    assert admin_api.at("1.26").delete(f"/v1/networks/{NOWHERE}").refusal == (406, "")
    assert admin_api.at("1.27").delete(f"/v1/networks//{NOWHERE}").status == 204
    assert admin_api.at("1.27").delete(f"/v1/networks/{NOWHERE}").refusal == (404, "network-not-found")


def test_network_without_neutron_uses_own_uuid_as_neutron_id(admin_api):
    made = admin_api.at("1.1").post("/v1/networks", {"name": None}).json
    assert (made["name"], made["neutron_net_id"]) == (None, made["uuid"])
    assert admin_api.at("1.27").delete(f"/v1/networks/{made['neutron_net_id']}").status == 204


def test_what_a_network_is_made_of(admin_api, api, add):
    made = add(subnets=[{"cidr": "10.9.0.0/24"}, {"cidr": "FD00:9::/64", "gateway": "fd00:9::00ff"}])
    given = [{name: value for name, value in each.items() if name != "uuid"} for each in made["subnets"]]
    assert given == [
        {"cidr": "10.9.0.0/24", "gateway": "10.9.0.1"},
        {"cidr": "fd00:9::/64", "gateway": "fd00:9::ff"},
    ]
    assert (made["project_id"], made["user_id"], made["shared"], made["updated_at"]) == ("demo", "root", False, None)
    assert made["links"][0]["href"] == f"http://zun.example:9517/v1/networks/{made['uuid']}"
    assert api.at(NEWEST).get("/v1/networks/backend").json == made
    (listed,) = api.at(NEWEST).get("/v1/networks").json["networks"]
    assert listed.keys() == made.keys() - {"links"} and listed["uuid"] == made["uuid"]


def test_subnets_are_given_out_where_none_is_named(add, configuration):
    cidrs = [add(subnets=each)["subnets"][0]["cidr"] for each in ([], None, [{"cidr": "10.224.3.0/25"}], [], [])]
    assert cidrs == ["10.224.0.0/24", "10.224.1.0/24", "10.224.3.0/25", "10.224.2.0/24", "10.224.4.0/24"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "name"),
        ({"name": "x"}, "name"),
        ({"name": "--"}, "name"),
        ({"name": 5}, "name"),
        ({"name": "backend", "neutron_net_id": ""}, "neutron_net_id"),
        ({"name": "backend", "colour": "red"}, "colour"),
        ({"name": "backend", "shared": 1}, "shared"),
        ({"name": "backend", "project_id": ""}, "project_id"),
        ({"name": "backend", "subnets": [{}]}, "cidr"),
        ({"name": "backend", "subnets": [{"cidr": "10.9.0.0/24", "dns": "10.9.0.2"}]}, "dns"),
        ({"name": "backend", "subnets": [{"cidr": "10.9.0.0"}]}, "prefix"),
        ({"name": "backend", "subnets": [{"cidr": "10.9.0.1/24"}]}, "10.9.0.1/24"),
        ({"name": "backend", "subnets": [{"cidr": "all"}]}, "'all' is not a subnet"),
        ({"name": "backend", "subnets": [{"cidr": "10.0.0.0/15"}]}, "/16"),
        ({"name": "backend", "subnets": [{"cidr": "10.9.0.0/30"}]}, "/29"),
        ({"name": "backend", "subnets": [{"cidr": "127.1.0.0/24"}]}, "no addresses"),
        ({"name": "backend", "subnets": [{"cidr": "224.1.0.0/24"}]}, "no addresses"),
        ({"name": "backend", "subnets": [{"cidr": "fd00::/64"}]}, "IPv4 subnet"),
        ({"name": "backend", "subnets": [{"cidr": "10.9.0.0/24"}, {"cidr": "10.8.0.0/24"}]}, "at most one IPv4"),
        ({"name": "backend", "subnets": [{"cidr": "10.9.0.0/24", "gateway": "10.8.0.1"}]}, "gateway"),
        ({"name": "backend", "subnets": [{"cidr": "10.9.0.0/24", "gateway": "10.9.0.255"}]}, "gateway"),
        ({"name": "backend", "subnets": [{"cidr": "10.9.0.0/24", "gateway": "fd00::1"}]}, "IPv4 address"),
    ],
)
def test_a_bad_network_is_refused_with_a_reason_and_not_made(admin_api, given, said):
    reply = admin_api.at(NEWEST).post("/v1/networks", given)
    assert reply.refusal == (400, "schema-validation-error")
    assert said in reply.error["detail"]
    assert admin_api.at(NEWEST).get("/v1/networks").json["networks"] == []


@pytest.mark.parametrize("field", ["subnets", "shared", "project_id"])
def test_fields_of_a_later_version(admin_api, field):
    reply = admin_api.at("1.41").post("/v1/networks", {"name": "backend", field: None})
    assert reply.refusal == (400, "schema-validation-error") and field in reply.error["detail"]


@pytest.mark.parametrize("cidr", ["10.9.0.0/24", "10.9.0.128/25", "10.9.0.0/16"])
def test_networks_have_no_addresses_in_common(admin_api, add, cidr):
    add(subnets=[{"cidr": "10.9.0.0/24"}])
    reply = admin_api.at(NEWEST).post("/v1/networks", {"name": "other", "subnets": [{"cidr": cidr}]})
    assert reply.refusal == (409, "conflict") and "10.9.0.0/24" in reply.error["detail"]


def test_the_pool_is_the_operator_s_and_can_be_used_up(configuration, database, scheduler, compute, admin_api):
    configuration.set_override("subnet_pool", "10.7.0.0/23", group="network")
    admin = Client(
        api_app.build(configuration, scheduler_api=scheduler, compute_api=compute), "root", "admin", "admin", NEWEST
    )
    cidrs = [admin.post("/v1/networks", {"name": "backend"}).json["subnets"][0]["cidr"] for _ in range(2)]
    assert cidrs == ["10.7.0.0/24", "10.7.1.0/24"]
    reply = admin.post("/v1/networks", {"name": "backend"})
    assert reply.refusal == (409, "conflict") and "subnet_pool" in reply.error["detail"]


def test_lists_come_in_pages(api, add):
    made = [add(f"net-{number}")["uuid"] for number in range(3)]
    first = api.at(NEWEST).get("/v1/networks?limit=2").json
    assert [each["uuid"] for each in first["networks"]] == made[:2] and f"marker={made[1]}" in first["next"]
    second = api.at(NEWEST).get(f"/v1/networks?limit=2&marker={made[1]}").json
    assert ([each["uuid"] for each in second["networks"]], second["next"]) == (made[2:], None)
    assert api.at(NEWEST).get("/v1/networks?colour=red").refusal == (400, "invalid-value")
    assert api.at(NEWEST).get(f"/v1/networks?marker={NOWHERE}").refusal == (404, "network-not-found")


# Who sees what.


def test_projects_do_not_see_each_other_s_networks(api, admin_api, add, placed):
    ours, everybody_s = add("ours"), add("shared-net", shared=True)
    stranger = api.in_project("other")
    for client, names in ((api, ["ours", "shared-net"]), (stranger, ["shared-net"])):
        assert [each["name"] for each in client.at(NEWEST).get("/v1/networks").json["networks"]] == names
    everything = admin_api.at(NEWEST).get("/v1/networks?all_projects=1").json["networks"]
    assert [each["name"] for each in everything] == ["ours", "shared-net"]
    assert admin_api.at(NEWEST).get(f"/v1/networks/{ours['uuid']}").status == 200
    for ident in (ours["uuid"], "ours", NOWHERE, "nothing"):
        assert stranger.at(NEWEST).get(f"/v1/networks/{ident}").refusal == (404, "network-not-found")
        assert stranger.delete(f"/v1/networks/{ident}").refusal == (404, "network-not-found")
        reply = stranger.post("/v1/containers", {"image": "demo", "nets": [{"network": ident}]})
        assert reply.refusal == (404, "network-not-found")
    assert stranger.at(NEWEST).get(f"/v1/networks/{everybody_s['uuid']}").status == 200
    assert stranger.delete(f"/v1/networks/{everybody_s['uuid']}").refusal == (403, "policy-not-authorized")
    theirs = placed(project_id="other")
    attach = f"/v1/containers/{theirs.uuid}/network_attach?network="
    # An administrator does not put a container into a network that its own project may not use.
    for client in (stranger, admin_api):
        assert client.post(attach + ours["uuid"]).refusal == (404, "network-not-found")
        assert client.post(attach + everybody_s["uuid"]).status == (200 if client is stranger else 400)


def test_admin_cannot_attach_a_network_of_another_project(admin_api, add):
    add("ours")
    reply = admin_api.post("/v1/containers", {"image": "demo", "nets": [{"network": "ours"}]})
    assert reply.refusal == (404, "network-not-found")


def test_a_network_of_containers_stays(api, admin_api, add, create):
    network = add()["uuid"]
    container = create()
    reply = admin_api.delete(f"/v1/networks/{network}")
    assert reply.refusal == (409, "conflict") and "1 containers" in reply.error["detail"]
    db_containers.destroy(container)
    assert admin_api.delete(f"/v1/networks/{network}").status == 204


# Containers: ``nets``.


@pytest.mark.parametrize("version", ["1.1", "1.2", "1.40", "1.42"])
def test_nets_at_every_version(api, add, create, version):
    one, two = add("one")["uuid"], add("two")["uuid"]
    given = [{"network": "two", "v4-fixed-ip": "10.224.1.77"}, {"network": one}]
    container = create(api.at(version), nets=given)
    assert ports(container) == [(two, "10.224.1.77", None), (one, "10.224.0.2", None)]
    assert api.get(f"/v1/containers/{container}").json["addresses"] == {}, "its host has not plugged it in yet"


@pytest.mark.parametrize("nets", [{}, {"nets": []}, {"nets": None}])
def test_the_network_of_who_names_none(add, create, nets):
    assert ports(create(**nets)) == []
    shared = add("shared-net", shared=True, project_id="other")["uuid"]
    assert ports(create(**nets)) == [(shared, "10.224.0.2", None)]
    own = add("own")["uuid"]
    add("younger")
    assert ports(create(**nets)) == [(own, "10.224.1.2", None)]


def test_both_subnets_have_an_address_and_one_may_be_chosen(add, create):
    network = add(subnets=[{"cidr": "fd00:9::/64"}, {"cidr": "10.9.0.0/24"}])["uuid"]

    def made(**fixed):
        return ports(create(nets=[{"network": network, **fixed}]))

    assert made() == [(network, "10.9.0.2", "fd00:9::2")]
    assert made(**{"v6-fixed-ip": "fd00:9:0::7"}) == [(network, "10.9.0.3", "fd00:9::7")]
    # Of two only this one counts.
    assert made(**{"v6-fixed-ip": "fd00:9::8", "v4-fixed-ip": "10.9.0.8"}) == [(network, "10.9.0.8", "fd00:9::3")]


@pytest.mark.parametrize(
    ("net", "refusal", "said"),
    [
        ({"network": "nothing"}, (404, "network-not-found"), "nothing"),
        ({"network": NOWHERE}, (404, "network-not-found"), NOWHERE),
        ({"network": "twice"}, (409, "conflict"), "Several have the name"),
        ({"port": "nothing"}, (404, "port-not-found"), "nothing"),
        ({"port": NOWHERE}, (404, "port-not-found"), NOWHERE),
        ({"network": "backend", "v4-fixed-ip": "10.9.0.5"}, (409, "conflict"), "10.9.0.5"),
        ({"network": "backend", "v4-fixed-ip": "10.9.1.5"}, (400, "invalid-value"), "10.9.0.0/24"),
        ({"network": "backend", "v4-fixed-ip": "10.9.0.0"}, (400, "invalid-value"), "10.9.0.0/24"),
        ({"network": "backend", "v4-fixed-ip": "10.9.0.255"}, (400, "invalid-value"), "10.9.0.0/24"),
        ({"network": "backend", "v4-fixed-ip": "10.9.0.1"}, (400, "invalid-value"), "gateway"),
        ({"network": "backend", "v6-fixed-ip": "fd00::5"}, (400, "invalid-value"), "no IPv6 subnet"),
        ({"network": "tiny"}, (409, "conflict"), "no free address"),
    ],
)
def test_nets_that_cannot_be(api, scheduler, add, create, net, refusal, said):
    add(subnets=[{"cidr": "10.9.0.0/24"}])
    add("twice")
    add("twice")
    add("tiny", subnets=[{"cidr": "10.8.0.0/29"}])
    create(nets=[{"network": "backend", "v4-fixed-ip": "10.9.0.5"}])
    for _ in range(5):
        create(nets=[{"network": "tiny"}])
    before = len(scheduler.sent)
    for path, body in (
        ("/v1/containers", {"image": "demo", "name": "refused", "nets": [net]}),
        ("/v1/containers?run=true", {"image": "demo", "name": "refused", "nets": [net]}),
    ):
        reply = api.post(path, body)
        assert reply.refusal == refusal and said in reply.error["detail"]
    assert len(scheduler.sent) == before and api.get("/v1/containers/refused").status == 404


def test_a_network_twice(api, add):
    network = add()["uuid"]
    reply = api.post("/v1/containers", {"image": "demo", "nets": [{"network": "backend"}, {"network": network}]})
    assert reply.refusal == (400, "invalid") and "more than once" in reply.error["detail"]


def test_a_port_is_somebody_s(api, add, create):
    add()
    (port,) = network_ports.of_container(create())
    reply = api.post("/v1/containers", {"image": "demo", "nets": [{"port": port["uuid"]}]})
    assert reply.refusal == (400, "port-in-use") and port["container_uuid"] in reply.error["detail"]
    stranger = api.in_project("other").post("/v1/containers", {"image": "demo", "nets": [{"port": port["uuid"]}]})
    assert stranger.refusal == (404, "port-not-found")


def test_addresses_are_free_again_when_the_container_is_gone(api, add, create):
    network = add()["uuid"]
    first, _second = create(), create()
    db_containers.destroy(first)
    assert ports(create()) == [(network, "10.224.0.2", None)]
    assert ports(create()) == [(network, "10.224.0.4", None)]


def test_a_container_that_is_over_quota_has_no_address(api, admin_api, add, create):
    admin_api.put("/v1/quotas/demo", {"containers": 1})
    network = add()["uuid"]
    create()
    assert api.post("/v1/containers", {"image": "demo"}).refusal == (403, "over-quota")
    admin_api.put("/v1/quotas/demo", {"containers": 2})
    assert ports(create()) == [(network, "10.224.0.3", None)]


# Attach, detach, list.


def test_attach(api, compute, add, placed):
    one, two = add("one")["uuid"], add("two")["uuid"]
    container = placed()
    reply = api.post(f"/v1/containers/{container.uuid}/network_attach?network=one")
    assert (reply.status, reply.body) == (200, b"null")
    body = {"network": two, "fixed_ip": "10.224.1.9"}
    assert api.post(f"/v1/containers/{container.uuid}/network_attach", body).status == 200
    assert ports(container.uuid) == [(one, "10.224.0.2", None), (two, "10.224.1.9", None)]
    made = [port["uuid"] for port in network_ports.of_container(container.uuid)]
    assert compute.sent == [("network_attach", container.uuid, {"port": port}) for port in made]
    actions = api.get(f"/v1/containers/{container.uuid}/container_actions").json["containerActions"]
    assert [action["action"] for action in actions] == ["network_attach"] * 2


@pytest.mark.parametrize("status", ["Created", "Running", "Stopped", "Paused", "Error"])
def test_attach_and_detach_in_any_status(api, add, placed, status):
    add()
    container = placed(status)
    assert api.post(f"/v1/containers/{container.uuid}/network_attach").status == 200, "the default network"
    assert api.post(f"/v1/containers/{container.uuid}/network_detach?network=backend").status == 202


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("network=one", (400, "invalid")),
        ("network=nothing", (404, "network-not-found")),
        (f"port={NOWHERE}", (404, "port-not-found")),
        ("port={port}", (400, "port-in-use")),
        ("network=two&port={port}", (400, "invalid")),
        ("network=", (400, "schema-validation-error")),
        ("colour=red", (400, "schema-validation-error")),
        ("network=two&fixed_ip=10.224", (400, "schema-validation-error")),
        ("network=two&fixed_ip=10.224.0.9", (400, "invalid-value")),
        ("network=two&fixed_ip=10.224.1.2", (409, "conflict")),
        ("network=two&fixed_ip=fd00::1", (400, "invalid-value")),
        ("", (400, "invalid")),  # the default network, where it is
    ],
)
def test_attach_refused(api, compute, add, placed, query, refusal):
    one, two = add("one")["uuid"], add("two")["uuid"]
    container, other = placed(), placed()
    network_ports.attach(container.uuid, {"network": one})
    port = network_ports.attach(other.uuid, {"network": two})["uuid"]
    reply = api.post(f"/v1/containers/{container.uuid}/network_attach?{query.format(port=port)}")
    assert reply.refusal == refusal, reply.json
    assert ports(container.uuid) == [(one, "10.224.0.2", None)] and compute.sent == []


def test_attach_without_any_network(api, placed):
    reply = api.post(f"/v1/containers/{placed().uuid}/network_attach")
    assert reply.refusal == (409, "conflict") and "no network" in reply.error["detail"]


def test_a_message_that_cannot_be_sent_delays_the_change(api, compute, add, placed):
    """The host finds the actions by itself, in their order."""
    add()
    container = placed()
    compute.failure = exceptions.HostUnavailable(host="host-1")
    for action in ("network_attach", "network_detach"):
        assert api.post(f"/v1/containers/{container.uuid}/{action}?network=backend").status < 300
    wanted = [(each["action"], list(each["arguments"])) for each in container_actions.wanted(container.uuid)]
    assert wanted == [("network_attach", ["port"]), ("network_detach", ["port"])]


def test_an_action_that_is_not_accepted_leaves_no_port(api, add, placed, monkeypatch):
    network, container = add()["uuid"], placed()

    def away(*_arguments, **_named):
        raise exceptions.Unavailable("no database")

    monkeypatch.setattr(db_containers, "accept", away)
    assert api.post(f"/v1/containers/{container.uuid}/network_attach").status == 503
    assert ports(container.uuid) == []
    port = network_ports.attach(container.uuid, {"network": network})
    assert api.post(f"/v1/containers/{container.uuid}/network_detach?network=backend").status == 503
    assert network_ports.of_container(container.uuid) == [port]


def test_a_container_without_a_host(api, compute, add, create):
    container = create()
    add()
    for path in ("network_attach?network=backend", "network_detach?network=backend"):
        assert api.post(f"/v1/containers/{container}/{path}").refusal == (409, "conflict")
    assert ports(container) == [] and compute.sent == []


def test_detach(api, compute, add, placed):
    one, two = add("one")["uuid"], add("two")["uuid"]
    container = placed()
    made = [network_ports.attach(container.uuid, {"network": each})["uuid"] for each in (one, two)]
    for query, port in ((f"network={one}", made[0]), (f"port={made[1]}", made[1])):
        reply = api.post(f"/v1/containers/{container.uuid}/network_detach?{query}")
        assert (reply.status, reply.body) == (202, b"null")
        assert compute.sent[-1] == ("network_detach", container.uuid, {"port": port})
        assert api.post(f"/v1/containers/{container.uuid}/network_detach?{query}").refusal == (400, "invalid")
    assert [port["leaving"] for port in network_ports.of_container(container.uuid)] == [True, True]
    # Until its host has done it, it is still there.
    assert api.post(f"/v1/containers/{container.uuid}/network_attach?network=one").refusal == (409, "conflict")


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("", (400, "invalid")),
        ("network=one&port={port}", (400, "invalid")),
        ("network=nothing", (404, "network-not-found")),
        ("network=two", (400, "invalid")),
        (f"port={NOWHERE}", (404, "port-not-found")),
        ("port={port}", (400, "invalid")),
        ("port={beside}", (400, "invalid")),
        ("network=one&force=1", (400, "schema-validation-error")),
    ],
)
def test_detach_refused(api, compute, add, placed, query, refusal):
    one, two = add("one")["uuid"], add("two")["uuid"]
    container, other = placed(), placed()
    network_ports.attach(container.uuid, {"network": one})
    port, beside = (network_ports.attach(other.uuid, {"network": each})["uuid"] for each in (two, one))
    reply = api.post(f"/v1/containers/{container.uuid}/network_detach?{query.format(port=port, beside=beside)}")
    assert reply.refusal == refusal, reply.json
    assert compute.sent == []
    assert not any(each["leaving"] for each in network_ports.of_container(container.uuid))


def test_list(api, add, placed):
    network = add(subnets=[{"cidr": "10.9.0.0/24"}, {"cidr": "fd00:9::/64"}])
    container = placed()
    port = network_ports.attach(container.uuid, {"network": network["uuid"]})["uuid"]
    chosen = {"addr": "172.17.0.2", "version": 4, "port": None, "subnet_id": None, "preserve_on_delete": False}
    db_containers.update(container.uuid, {"addresses": {**addresses(container.uuid), "bridge": [chosen]}})
    v4, v6 = (each["uuid"] for each in network["subnets"])
    path = f"/v1/containers/{container.uuid}/network_list"
    flat = {"net_id": network["uuid"], "port_id": port}
    assert api.at("1.12").get(path).refusal == (406, "")
    for version in ("1.13", "1.17"):
        assert api.at(version).get(path).json == {
            "networks": [
                {**flat, "subnet_id": v4, "version": 4, "ip_address": "10.9.0.2"},
                {**flat, "subnet_id": v6, "version": 6, "ip_address": "fd00:9::2"},
                {"net_id": "bridge", "port_id": None, "subnet_id": None, "version": 4, "ip_address": "172.17.0.2"},
            ]
        }
    for version in ("1.18", "1.42"):
        assert api.at(version).get(path).json == {
            "networks": [
                {
                    **flat,
                    "fixed_ips": [
                        {"subnet_id": v4, "version": 4, "ip_address": "10.9.0.2"},
                        {"subnet_id": v6, "version": 6, "ip_address": "fd00:9::2"},
                    ],
                },
                {
                    "net_id": "bridge",
                    "port_id": None,
                    "fixed_ips": [{"subnet_id": None, "version": 4, "ip_address": "172.17.0.2"}],
                },
            ]
        }


def test_nothing_to_list(api, placed):
    for version in ("1.13", "1.18"):
        assert api.at(version).get(f"/v1/containers/{placed().uuid}/network_list").json == {"networks": []}


# Security groups, and ports that are published.


@pytest.mark.parametrize("action", ["add_security_group", "remove_security_group"])
def test_security_groups(api, compute, placed, action):
    path = f"/v1/containers/{placed().uuid}/{action}"
    for reply in (api.at("1.14").post(f"{path}?name=web"), api.at("1.1").post(path, {"name": "web"})):
        assert reply.refusal == (400, "invalid-value") and "no security groups" in reply.error["detail"]
    assert api.at("1.14").post(path).refusal == (400, "schema-validation-error")
    assert api.at("1.14").post(f"{path}?name=").refusal == (400, "schema-validation-error")
    assert api.at("1.15").post(f"{path}?name=web").refusal == (406, "")
    busy = placed("Error")
    assert api.at("1.14").post(f"/v1/containers/{busy.uuid}/{action}?name=web").refusal == (
        409,
        "invalid-state-exception",
    )
    assert compute.sent == []


def test_security_groups_of_a_new_container(api, scheduler):
    reply = api.post("/v1/containers", {"image": "demo", "security_groups": ["web"]})
    assert reply.refusal == (400, "invalid-value") and "no security groups" in reply.error["detail"]
    assert scheduler.sent == []
    for none in ([], ["default"]):
        made = api.post("/v1/containers", {"image": "demo", "security_groups": none})
        assert made.status == 202
        assert api.get(f"/v1/containers/{made.json['uuid']}").json["security_groups"] == []


def test_where_ports_are_published_is_shown_from_its_version_on(api, placed):
    where = {"host_ip": "192.0.2.7", "host_port": 30123}
    container = placed(exposed_ports={"80/tcp": where, "53/udp": {}}, ports=[53, 80])
    assert api.at("1.42").get(f"/v1/containers/{container.uuid}").json["published_ports"] == {"80/tcp": where}
    shown = api.at("1.41").get(f"/v1/containers/{container.uuid}").json
    assert shown["ports"] == [53, 80] and not {"published_ports", "exposed_ports"} & shown.keys()


def test_a_network_s_row_is_found_by_what_its_creator_called_it(add, admin_api):
    made = add(neutron_net_id=NOWHERE)
    assert db.find_for("demo", NOWHERE)["uuid"] == made["uuid"]
