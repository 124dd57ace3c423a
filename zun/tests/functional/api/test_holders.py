# SPDX-License-Identifier: Apache-2.0
"""Who sees whose claims in the map of a host, if the operator lets members read the map."""

import dataclasses

import pytest

from zun.db import compute_nodes
from zun.tests.functional.api.conftest import HOST, inventory
from zun.topology import HostTopology, PlacementRequest, Plan, Usage, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.devices import Device

MAP = f"/v1/hosts/{HOST}/topology"
FOR_MEMBERS = {"host:topology": "role:member or role:reader", "host:get_all": "@", "host:get": "@"}
GPU = Device("0000:81:00.0", "10de", "20b0", "030200", cell=0)


@pytest.fixture
def two(placed, database):
    """A container of project demo and one of project other, each with a GPU of HOST and CPUs of its own."""
    gpus = (GPU, dataclasses.replace(GPU, address="0000:82:00.0"))
    node = dataclasses.replace(HostTopology.from_dict(inventory()["topology"]), devices=gpus)
    compute_nodes.put(HOST, inventory(topology=node.to_dict()))
    usage, made = Usage(), []
    request = PlacementRequest(
        cpu_policy="dedicated",
        cpus=2,
        memory_mib=64,
        numa_affinity="none",
        devices=(DeviceRequest("gpu", 1, (DeviceMatch(vendor_id="10de", product_id="20b0"),)),),
    )
    for project, name in (("demo", "ours"), ("other", "their-secret")):
        found = plan(node, usage, request)
        usage = usage.with_claim(name, found)
        fields = {"labels": {"secret-label": "secret-value"}, "cpu_policy": "dedicated", "cpuset": found.to_dict()}
        made.append(placed(name=name, project_id=project, **fields))
    return made


def claims(client):
    return client.get(MAP).json["claims"]


def by_project(two, claims):
    """The claims of ``two``, by the CPUs that each holds."""
    held = [str(Plan.from_dict(row.cpuset).cpus) for row in two]
    return [next(each for each in claims if each["cpuset_cpus"] == cpus) for cpus in held]


def test_administrator_sees_every_holder(admin_api, two):
    shown = by_project(two, claims(admin_api.at("1.48")))
    assert [(each["container"], each["name"]) for each in shown] == [
        (two[0].uuid, "ours"),
        (two[1].uuid, "their-secret"),
    ]
    assert [len(each["devices"]) for each in shown] == [1, 1]


@pytest.mark.parametrize(("version", "nobody"), [("1.48", None), ("1.47", ""), ("1.41", "")])
def test_member_sees_own_holders_and_that_others_hold(with_rules, admin_api, two, version, nobody):
    own, others = by_project(two, claims(with_rules(FOR_MEMBERS).at(version)))
    all_own, all_others = by_project(two, claims(admin_api.at(version)))
    assert own == all_own
    hidden = {"container": nobody, "name": "", **({"devices": []} if version == "1.48" else {})}
    assert others == all_others | hidden


def test_nothing_of_other_projects_is_in_what_members_read(with_rules, two):
    member = with_rules(FOR_MEMBERS).at("1.48")
    for path in (MAP, "/v1/hosts", f"/v1/hosts/{HOST}"):
        text = member.get(path).body.decode()
        assert not [secret for secret in (two[1].uuid, "their-secret", "secret-", '"other"') if secret in text]
    shown = member.get(MAP).json["devices"]
    assert [each["holders"] for each in shown] == [1, 1]


def test_right_to_see_holders_can_be_given(with_rules, two):
    given = with_rules({**FOR_MEMBERS, "host:topology:holders": "role:member"}).at("1.48")
    assert {each["name"] for each in claims(given)} == {"ours", "their-secret"}


@pytest.mark.parametrize("roles", ["reader", "member", "", "operator"])
def test_own_names_need_the_right_to_see_the_container(with_rules, two, roles):
    client = dataclasses.replace(with_rules({"host:topology": "@"}).at("1.48"), roles=roles or "nobody")
    seen = {each["name"] for each in claims(client)}
    assert seen == ({"ours", ""} if roles in ("reader", "member") else {""})


def test_map_stays_an_administrators_by_default(api, two):
    assert api.at("1.48").get(MAP).refusal == (403, "policy-not-authorized")


def test_capsule_is_named_by_the_right_to_see_capsules(with_rules, two):
    two[0].kind = "capsule"
    two[0].save()
    rules = {**FOR_MEMBERS, "capsule:get": "!"}
    assert {each["name"] for each in claims(with_rules(rules).at("1.48"))} == {""}
    assert {each["name"] for each in claims(with_rules(FOR_MEMBERS).at("1.48"))} == {"", "ours"}


def test_document_tells_that_a_container_may_be_null(with_rules, two):
    document = with_rules({}).get("/v1/openapi.json?version=1.48").json
    kind = document["components"]["schemas"]["Claim"]["properties"]["container"]["type"]
    assert set(kind) == {"string", "null"}
