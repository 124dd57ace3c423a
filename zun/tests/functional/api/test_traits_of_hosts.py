# SPDX-License-Identifier: Apache-2.0
"""Containers go to hosts with the traits that they ask for: over HTTP, to real services with runtimes in memory."""

from dataclasses import replace

import pytest

from zun.api import app as api_app
from zun.container.fake import DEFAULT_FACTS, InMemoryDriver
from zun.db import containers as db
from zun.tests.fixtures import wait_for
from zun.tests.functional.api.client import Client
from zun.tests.functional.cloud import Cloud, machine

FLAGS = {"old": ("sse2",), "new": ("sse2", "avx2"), "smt": ("sse2", "avx2")}
AVX2, SMT = "HW_CPU_X86_AVX2", "HW_CPU_HYPERTHREADING"


class FlaggedCloud(Cloud):
    """Hosts whose CPUs have the flags of FLAGS."""

    def start_agent(self, name):
        facts = replace(DEFAULT_FACTS, name=name, cpu_flags=frozenset(FLAGS[name]))
        self.drivers.setdefault(name, InMemoryDriver(facts))
        return super().start_agent(name)


@pytest.fixture
def cloud(database):
    hosts = {"old": machine(), "new": machine(), "smt": machine(cores=2, threads=2)}
    with FlaggedCloud(hosts, compute__traits=["CUSTOM_HALL_1"]) as made:
        yield made


@pytest.fixture
def application(cloud, configuration):
    return api_app.build(configuration, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)


@pytest.fixture
def api(application):
    return Client(application, user="alice", project="demo", roles="member", version="1.44")


@pytest.fixture
def admin_api(application):
    return Client(application, user="root", project="admin", roles="admin", version="1.44")


def placed(api, **fields):
    """The row of a container once it found a host, or none was found."""
    uuid = api.post("/v1/containers", {"image": "demo", "cpu": 0.1, "memory": 16, **fields}).json["uuid"]
    return wait_for(lambda: row if (row := db.get(uuid))["status"] in ("Created", "Error") else None)


def candidates(api, **fields):
    """The hosts that would take such a container, as an administrator is told."""
    answer = api.post("/v1/placement/capacity", {"cpu": 0.1, "memory": 512, **fields}).json
    return {each["host"] for each in answer["hosts"] if each["count"]}


def test_hosts_find_their_traits(admin_api):
    found = {name: admin_api.get(f"/v1/hosts/{name}/traits").json["traits"] for name in FLAGS}
    always = ["CUSTOM_HALL_1", "HW_CPU_X86_SSE2"]
    assert found == {
        "old": always,
        "new": sorted([*always, AVX2]),
        "smt": sorted([*always, AVX2, SMT]),
    }


def test_who_is_asked_for_what(admin_api):
    assert admin_api.put("/v1/hosts/old/traits", {"traits": ["CUSTOM_GPU"]}).status == 200
    for names in (["south", "old", "new"], ["east", "new", "smt"]):
        assert admin_api.post("/v1/aggregates", {"name": names[0]}).status == 201
        for name in names[1:]:
            assert admin_api.post(f"/v1/aggregates/{names[0]}/add_host", {"host": name}).status == 200
    for fields, hosts in (
        ({}, {"old", "new", "smt"}),
        ({"required_traits": [AVX2]}, {"new", "smt"}),
        ({"required_traits": [AVX2], "forbidden_traits": [SMT]}, {"new"}),
        ({"any_traits": [["CUSTOM_GPU", SMT]]}, {"old", "smt"}),
        ({"any_traits": [["CUSTOM_GPU", SMT], [AVX2]]}, {"smt"}),
        ({"member_of": [["south"]]}, {"old", "new"}),
        ({"member_of": [["south"], ["east"]]}, {"new"}),
        ({"member_of": [["south", "east"]], "forbidden_traits": ["CUSTOM_GPU"]}, {"new", "smt"}),
        ({"hints": {f"image:trait:{AVX2}": "forbidden"}}, {"old"}),
        ({"required_traits": ["CUSTOM_NOWHERE"]}, set()),
    ):
        wait_for(lambda fields=fields, hosts=hosts: candidates(admin_api, **fields) == hosts)
        if hosts:
            assert placed(admin_api, **fields)["host"] in hosts


def test_trait_counts_once_added_and_no_longer_once_removed(api, admin_api):
    assert placed(api, required_traits=["CUSTOM_GPU"])["status"] == "Error"
    admin_api.put("/v1/hosts/old/traits", {"traits": ["CUSTOM_GPU"]})
    assert placed(api, required_traits=["CUSTOM_GPU"])["host"] == "old"
    admin_api.put("/v1/hosts/old/traits", {"traits": []})
    wait_for(lambda: candidates(admin_api, required_traits=["CUSTOM_GPU"]) == set())


def test_what_is_missing_is_told_with_the_number_of_hosts(api, admin_api):
    row = placed(api, required_traits=["HW_CPU_X86_AVX512F", AVX2])
    assert (row["status"], row["status_reason"]) == (
        "Error",
        "No valid host was found. Of 3 hosts, TraitsFilter rejected 3. Traits: 2 hosts: it lacks HW_CPU_X86_AVX512F. "
        "1 host: it lacks HW_CPU_X86_AVX2, HW_CPU_X86_AVX512F.",
    )
    explained = api.get(f"/v1/containers/{row['uuid']}/explain").json
    assert (explained["codes"], explained["filters"]) == ({"trait": 3}, {"TraitsFilter": 3})
    assert explained["wanted"]["required_traits"] == [AVX2, "HW_CPU_X86_AVX512F"]
    wish = {"cpu": 0.1, "required_traits": ["HW_CPU_X86_AVX512F", AVX2]}
    refused = admin_api.post("/v1/placement/dry_run", wish).json
    found = {each["host"]: each["found"] for each in refused["refusal"]["details"]}
    assert found == {"old": {"traits": []}, "new": {"traits": [AVX2]}, "smt": {"traits": [AVX2]}}


def test_a_capsule_goes_where_its_traits_are(api):
    spec = {"containers": [{"image": "demo"}], "placement": {"required_traits": [SMT]}}
    created = api.post("/v1/capsules", {"template": {"kind": "capsule", "metadata": {}, "spec": spec}}).json
    wait_for(lambda: db.get(created["uuid"])["host"] == "smt")
