# SPDX-License-Identifier: Apache-2.0
"""Capsules over HTTP: the template, the two forms of the answer, who sees and deletes what."""

import copy
import json
import pathlib
import re
import textwrap
from dataclasses import replace

import pytest
import yaml

from zun.api import app, creation
from zun.common import exceptions
from zun.common.context import admin_context
from zun.common.probes import Connection, Page, Probe, Role, probes_of
from zun.db import capsules as db
from zun.db import containers as db_containers
from zun.db import session, volumes
from zun.objects import Container
from zun.tests.functional.api.conftest import HOST
from zun.tests.functional.api.samples import TEMPLATE

PAGE = pathlib.Path(__file__).parents[4] / "doc" / "source" / "user" / "capsules.rst"
PATH = "/v1/capsules"
MISSING = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"

PAUSE = "registry.k8s.io/pause@sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a"


def spec(*containers, **members):
    """The body of a small capsule."""
    made = {"containers": list(containers) or [{"image": "demo"}], **members}
    return {"template": {"kind": "capsule", "metadata": {"name": "small"}, "spec": made}}


def changed(path, value):
    """TEMPLATE with one member that is another one."""
    made = copy.deepcopy(TEMPLATE)
    inner = made
    *steps, last = path.split(".")
    for step in steps:
        inner = inner[int(step) if step.isdigit() else step]
    inner[int(last) if last.isdigit() else last] = value
    return {"template": made}


def rows():
    return db.page(admin_context(), limit=100, all_projects=True)


@pytest.fixture
def small(api):
    return api.post(PATH, spec()).json["uuid"]


def test_create_and_show(api, scheduler):
    reply = api.post(f"{PATH}/", {"template": TEMPLATE})
    made = reply.json
    assert (reply.status, reply.headers["location"]) == (202, f"http://zun.example:9517{PATH}/{made['uuid']}")
    assert scheduler.sent == [("create", made["uuid"])]
    (first, second), (init,) = made["containers"], made["init_containers"]
    assert made == {
        "uuid": made["uuid"],
        "links": [
            {"href": f"http://zun.example:9517{PATH}/{made['uuid']}", "rel": "self"},
            {"href": f"http://zun.example:9517/capsules/{made['uuid']}", "rel": "bookmark"},
        ],
        "name": "template",
        "labels": {"app": "web", "n": "1"},
        "annotations": {"foo": {"bar": [1]}},
        "restart_policy": {"Name": "always", "MaximumRetryCount": "0"},
        "project_id": "demo",
        "user_id": "alice",
        "cpu": 2.5,
        "memory": "2048",
        "addresses": {},
        "status": "Creating",
        "status_reason": None,
        "created_at": made["created_at"],
        "updated_at": None,
        "containers": [first, second],
        "init_containers": [init],
    }
    shown = {
        **{"image": "ubuntu", "command": ["/bin/bash", "-c", "sleep 1000"], "cpu": 1.5, "memory": "1024"},
        **{"environment": {"ENV1": "/x"}, "workdir": "/root", "ports": [80], "interactive": True, "tty": True},
        **{"status": "Creating", "cpu_policy": "shared", "restart_policy": made["restart_policy"]},
    }
    assert {name: first[name] for name in shown} == shown
    assert first["name"].startswith("capsule-template-") and "links" not in first and "host" not in first
    assert (second["ports"], second["cpu"], second["memory"], second["tty"]) == ([53], 1.0, "512", False)
    assert (init["command"], init["cpu"], init["memory"]) == (["true"], 1.0, "2048")
    # It must end some time, however often the capsule is restarted; the members are not touched by that.
    assert init["restart_policy"] == {"Name": "on-failure", "MaximumRetryCount": "10"}
    for ident in (made["uuid"], "template", f"/{made['uuid']}"):
        assert api.get(f"{PATH}/{ident}?anything=goes").json == made


def test_who_sees_no_host_sorts_by_none(api, admin_api):
    assert api.get(f"{PATH}?sort_key=host").refusal == (403, "policy-not-authorized")
    assert admin_api.get(f"{PATH}?sort_key=host").status == 200


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("NaN", "NaN is not a JSON number"),
        ("Infinity", "Infinity is not a JSON number"),
        ("1e999", "too large"),
        ("9" * 4000, "too large"),
        (r'"\u0000"', "NUL"),
        (r'"\ud800"', "surrogate"),
        ("[" * 40 + "]" * 40, "nested too deeply"),
        ("", "not valid JSON"),
    ],
)
def test_a_template_in_a_text_is_held_to_the_same(api, value, said):
    text = json.dumps({**TEMPLATE, "metadata": {"annotations": {"a": "VALUE"}}}).replace('"VALUE"', value)
    reply = api.post(PATH, {"template": text})
    assert reply.refusal == (400, "schema-validation-error")
    assert said in reply.error["detail"]


def test_words_and_sums_of_a_capsule(api):
    """A missing word is an empty one, and tenths add up."""
    sized = [{"image": "demo", "resources": {"requests": {"cpu": cpu}}} for cpu in (0.1, 0.2)]
    made = api.post(PATH, spec(*sized, {"image": "demo", "command": ["a", None], "args": [None]})).json
    assert (made["cpu"], made["containers"][2]["command"]) == (1.3, ["a", "", ""])


def test_the_operators_sandbox_and_zone(configuration, api, scheduler, compute):
    configuration.set_override("sandbox_command", ["sleep", "1000"], group="capsule")
    configuration.set_override("default_schedule_zone", "north")
    application = app.build(configuration, scheduler_api=scheduler, compute_api=compute)
    uuid = replace(api, application=application).post(PATH, spec()).json["uuid"]
    capsule = Container.get_by_uuid(admin_context(), uuid)
    assert (capsule.command, capsule.request["availability_zone"]) == (["sleep", "1000"], "north")


def test_addresses(api, small):
    """A capsule shows them, its containers have none of their own."""
    addresses = {"n": [{"addr": "10.1.0.2", "version": 4, "port": "p", "subnet_id": "s"}]}
    with session.writer() as connection:
        table = db_containers.table
        connection.execute(table.update().where(table.c.uuid == small).values(addresses=addresses))
    assert api.get(f"{PATH}/{small}").json["addresses"] == addresses


def test_what_is_stored(api):
    uuid = api.post(PATH, {"template": json.dumps(TEMPLATE)}).json["uuid"]
    capsule = Container.get_by_uuid(admin_context(), uuid)
    local = {"type": "local", "size_mib": 1500, "number": 0}
    named = {"type": "volume", "source": "data", "number": 1}
    assert capsule.mounts == [{**local, "destination": "/volumes/scratch"}, {**named, "destination": "/volumes/shared"}]
    assert (capsule.volume_disk, capsule.request["availability_zone"]) == (2, "nova")
    assert (capsule.image, capsule.image_driver, capsule.command) == (PAUSE, "docker", None)
    _, first, second = Container.list_by_capsule(admin_context(), uuid)
    assert capsule.disk == first.disk == second.disk == first.volume_disk == 0  # its volumes are counted once
    assert first.mounts == [{**local, "destination": "/data1", "read_only": True}]
    assert second.mounts == [{**local, "destination": "/data2"}, {**named, "destination": "/data3"}]
    assert capsule.exposed_ports == {"80/tcp": {}, "53/udp": {}}
    assert (first.exposed_ports, second.exposed_ports) == ({"80/tcp": {}}, {"53/udp": {}})
    assert (capsule.request["run"], first.request, second.request) == (True, {"run": True}, {"run": True})
    assert (first.interactive, first.tty, second.interactive, second.tty) == (True, True, False, False)
    assert first.image_pull_policy is None  # only an administrator's wish is heard


def test_admin_sees_host_and_image_pull_policy_of_capsule(admin_api):
    made = admin_api.post(PATH, {"template": TEMPLATE}).json
    assert made["host"] is None and made["containers"][0]["image_pull_policy"] == "ifnotpresent"
    assert "host" in admin_api.get(PATH).json["capsules"][0]


def test_the_form_of_older_versions(api, small):
    new, old = api.at("1.32").get(f"{PATH}/{small}").json, api.at("1.31").get(f"{PATH}/{small}").json
    assert old.keys() - new.keys() == {
        *("meta_name", "meta_labels", "volumes_info", "containers_uuids", "init_containers_uuids", "capsule_version")
    }
    assert new.keys() - old.keys() == {"name", "labels"}
    assert (new["labels"], new["addresses"], new["annotations"]) == ({}, {}, {})
    assert new["restart_policy"] == {"Name": "always", "MaximumRetryCount": "0"}
    newer = [api.at(version).get(f"{PATH}/{small}").json.keys() for version in ("1.40", "1.41", "1.42")]
    assert newer[0] == new.keys() and newer[1] >= newer[0] | {"cpu_policy"}
    assert newer[2] - newer[1] == {"published_ports"}
    assert (old["meta_name"], old["meta_labels"], old["restart_policy"]) == ("small", {}, "always")
    assert (old["volumes_info"], old["containers_uuids"], old["init_containers_uuids"]) == ({}, [], [])
    assert old["capsule_version"] == ""
    assert api.at("1.31").get(PATH).json["capsules"] == [old]
    assert api.at("1.1").post(PATH, spec()).json["meta_name"] == "small"


def test_placement(api):
    users = api.at("1.42")
    sized = {"image": "demo", "resources": {"requests": {"cpu": 2, "memory": 256}}}
    asked = {"cpu_policy": "dedicated", "numa_nodes": 2, "cpu_thread_policy": "isolate"}
    made = users.post(PATH, spec(sized, sized, placement=asked)).json
    expected = {"cpu": 4.0, "memory": "512", "cpu_policy": "dedicated", "numa_nodes": 2, "cpuset_cpus": None}
    assert {name: made[name] for name in expected} == expected
    assert {each["cpu_policy"] for each in made["containers"]} == {"dedicated"}
    stored = Container.get_by_uuid(admin_context(), made["uuid"])
    assert stored.placement["cpu_thread_policy"] == "isolate"


@pytest.mark.parametrize(
    ("requests", "asked", "word"),
    [
        ({"cpu": 1.5, "memory": 64}, {"cpu_policy": "dedicated"}, "spec.containers.0.resources.requests.cpu"),
        ({"cpu": 1}, {"cpu_policy": "dedicated"}, "spec.containers.0.resources.requests.memory"),
        ({"memory": 64}, {"cpu_policy": "dedicated"}, "spec.containers.0.resources.requests.cpu"),
        ({"cpu": 1, "memory": 64}, {"cpu_policy": "dedicated", "numa_nodes": 2}, "numa_nodes"),
        ({"cpu": 1, "memory": 64}, {"numa_nodes": 1}, "numa_nodes"),
        ({"cpu": 1, "memory": 64}, {"cpu_policy": "mixed"}, "spec.placement"),
        ({"cpu": 1, "memory": 64}, {"cpu_policy": "dedicated", "mem_page_size": 2048}, "mem_page_size"),
    ],
)
def test_a_bad_placement_is_named_and_makes_nothing(api, requests, asked, word):
    body = spec({"image": "demo", "resources": {"requests": requests}}, placement=asked)
    reply = api.at("1.42").post(PATH, body)
    assert reply.status == 400 and word in reply.error["detail"], reply.json
    assert api.at("1.40").post(PATH, body).refusal == (400, "invalid-param-in-version")
    assert rows() == []


def test_generated_names_of_containers_differ(api, monkeypatch):
    names = iter(f"{name}-container" for name in ("phi-1", "phi-1", "chi-2", "psi-3"))
    monkeypatch.setattr(creation, "generated_name", lambda choose: next(names))
    reply = api.at("1.51").post(PATH, spec({"image": "demo"}, {"image": "demo"}, {"image": "demo", "name": "chi-2"}))
    assert reply.status == 202, reply.json
    assert [each["name"] for each in reply.json["containers"]] == [
        "capsule-small-phi-1", "capsule-small-psi-3", "capsule-small-chi-2"
    ]


def boxed(cpu=2, memory=256, **fields):
    return {"image": "demo", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **fields}


DEDICATED = {"cpu_policy": "dedicated"}
MIXED = {"cpu_policy": "mixed", "dedicated_cpus": 1}


def stored_members(api, **members):
    made = api.post(PATH, spec(**members)).json
    found = Container.get_by_uuid(admin_context(), made["uuid"])
    shown = [
        (each["cpu_policy"], each["cpu"], each["memory"], each["containers"], each.get("init_containers", False))
        for each in found.placement["members"]
    ]
    return made, found, shown


def test_placements_of_containers(api):
    api = api.at("1.51")
    boxes = [boxed(placement={**DEDICATED, "mem_page_size": 2048}), boxed(), boxed(1.5, placement=MIXED)]
    made, found, shown = stored_members(api, containers=boxes, initContainers=[boxed(3)])
    assert shown == [("dedicated", 2.0, 256, [0], False), ("mixed", 1.5, 256, [2], False),
                     ("shared", 3.0, 256, [1], True)]
    assert {name: made[name] for name in ("cpu", "memory", "cpu_policy")} == {
        "cpu": 6.5, "memory": "768", "cpu_policy": "mixed"
    }
    assert [each["cpu_policy"] for each in made["containers"]] == ["dedicated", "shared", "mixed"]
    assert [each["mem_page_size"] for each in made["containers"]] == [2048, None, None]
    assert found.placement["members"][0]["placement"]["mem_page_size"] == 2048


def test_containers_that_follow_are_placed_together(api):
    api = api.at("1.51")
    placed = {**DEDICATED, "numa_nodes": 2, "same": "none"}
    boxes = [boxed(), boxed(1, placement={"cpu_policy": "shared"}), boxed(), boxed(placement={"mem_page_size": "any"})]
    _, found, shown = stored_members(api, containers=boxes, placement=placed, initContainers=[boxed(5)])
    assert shown == [("dedicated", 2.0, 256, [3], False), ("dedicated", 5.0, 512, [0, 2], True),
                     ("shared", 1.0, 256, [1], False)]
    assert [each["placement"].get("numa_nodes") for each in found.placement["members"]] == [1, 2, None]


def test_capsule_without_such_placements_is_stored_as_ever(api):
    placed = {**DEDICATED, "same": "none"}
    made = api.at("1.51").post(PATH, spec(boxed(), placement=placed)).json
    stored = Container.get_by_uuid(admin_context(), made["uuid"]).placement
    assert "members" not in stored and "same" not in stored


def test_init_containers_and_sidecars_are_planned_with_those_that_follow(api):
    boxes, begin = [boxed(placement=DEDICATED), boxed(1)], [boxed(1, 100, restartPolicy="Always"), boxed(3, 50)]
    shown = stored_members(api.at("1.51"), containers=boxes, initContainers=begin)[2]
    assert shown == [("dedicated", 2.0, 256, [1], False), ("shared", 4.0, 356, [0, 2], True)]


CACHE = {"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "64M"}}
PAGED = {**DEDICATED, "mem_page_size": 2048}


def caching(*, read_only=False, **fields):
    return boxed(volumeMounts=[{"name": "cache", "mountPath": "/cache", "readOnly": read_only}], **fields)


@pytest.mark.parametrize(
    ("boxes", "more", "memory"),
    [
        pytest.param([caching(placement=DEDICATED), boxed()], {}, [320, 256], id="writer-is-dedicated"),
        pytest.param([boxed(placement=DEDICATED), caching()], {}, [256, 320], id="writer-follows"),
        pytest.param([boxed(placement=DEDICATED), caching(placement=DEDICATED)], {}, [256, 320], id="second-writes"),
        pytest.param([caching(placement=DEDICATED), caching()], {}, [320, 256], id="dedicated-of-two-writers"),
        pytest.param([caching(placement=DEDICATED, read_only=True), caching()], {}, [256, 320], id="reader-and-writer"),
        pytest.param([caching(placement=DEDICATED, read_only=True), boxed()], {}, [320, 256], id="readers-only"),
        pytest.param([caching(placement=DEDICATED, read_only=True), boxed()], {"initContainers": [caching()]},
                     [256, 320], id="init-container-writes"),
        pytest.param([caching(placement=PAGED), boxed()], {}, [256, 320], id="writer-has-huge-pages"),
        pytest.param([caching(), boxed(placement=DEDICATED)], {"placement": DEDICATED}, [256, 320],
                     id="follower-is-dedicated"),
    ],
)  # fmt: skip
def test_volume_in_memory_is_claimed_with_a_container_that_writes_it(api, boxes, more, memory):
    _, found, shown = stored_members(api.at("1.51"), containers=boxes, volumes=[CACHE], **more)
    assert [each[2] for each in shown] == memory
    assert [each.get("volumes") for each in found.placement["members"]] == [[0] if each > 256 else None
                                                                            for each in memory]


def test_volume_in_memory_needs_ordinary_pages(api):
    reply = api.at("1.51").post(PATH, spec(caching(placement=PAGED), volumes=[CACHE]))
    assert reply.status == 400 and "spec.volumes: a volume in memory needs a container" in reply.error["detail"]


@pytest.mark.parametrize(
    ("container", "more", "word"),
    [
        (boxed(placement={"cpu_policy": "both"}), {}, "spec.containers.0.placement: cpu_policy"),
        (boxed(placement={**DEDICATED, "numa_nodes": 2}), {}, "not allowed ('numa_nodes'"),
        (boxed(placement={"mem_page_size": 2048}), {}, "spec.containers.0.placement.mem_page_size: it places"),
        (boxed(placement={"cpu_policy": "mixed"}), {}, "spec.containers.0.placement.dedicated_cpus"),
        (boxed(1, placement=MIXED), {}, "needs more than 1 in all"),
        (boxed(1.5, placement=DEDICATED), {}, "requests.cpu: 1.5 is not a whole number"),
        (boxed(memory=255, placement={**DEDICATED, "mem_page_size": 2048}), {}, "multiple of 2 MiB"),
        ({"image": "demo", "placement": DEDICATED}, {}, "requests.cpu: it is missing"),
        (boxed(), {"placement": {"same": "l3"}}, "spec.placement: same is l3: it is about own CPUs, and no member"),
        (boxed(), {"placement": {"same": "switch"}}, "spec.placement: same is switch: it is about devices, and no"),
        (boxed(), {"placement": {"same": "rack"}}, "spec.placement: same"),
        (boxed(placement=DEDICATED), {"placement": {"numa_nodes": 1}}, "numa_nodes"),
        (boxed(), {"initContainers": [boxed(placement=DEDICATED)]}, "init containers follow spec.placement"),
    ],
)
def test_a_bad_placement_of_a_container_is_named(api, container, more, word):
    reply = api.at("1.51").post(PATH, spec(container, **more))
    assert reply.status == 400 and word in reply.error["detail"], reply.json
    assert rows() == []


@pytest.mark.parametrize("body", [
    spec(boxed(placement=DEDICATED)), spec(boxed(), placement={**DEDICATED, "same": "l3"})
])
def test_placements_of_containers_need_their_version(api, body):
    assert api.at("1.50").post(PATH, body).refusal == (400, "invalid-param-in-version")
    assert api.at("1.51").post(PATH, body).status == 202


REQUESTS = "spec.containers.0.resources.requests"
BAD = [
    ({}, "template"),
    ({"template": TEMPLATE, "name": "x"}, "name"),
    ({"template": [TEMPLATE]}, "template"),
    ({"template": None}, "template"),
    ({"template": "kind: capsule"}, "JSON"),
    ({"template": "[]"}, "object"),
    *(
        (changed(path, value), path.rpartition(".")[2])
        for path, value in [
            ("kind", "pod"),
            ("kind", None),
            ("capsuleVersion", "alpha"),
            ("nets", []),
            ("availabilityZone", ""),
            ("restartPolicy", "Sometimes"),
            ("metadata", None),
            ("metadata.name", "n"),
            ("metadata.labels", []),
            ("metadata.annotations", "x"),
            ("spec", []),
            ("spec.restartPolicy", "always"),
            ("spec.containers", []),
            ("spec.containers", None),
            ("spec.initContainers", {}),
            ("spec.volumes", {}),
            ("spec.containers.0.image", None),
            ("spec.containers.0.image", "i"),
            ("spec.containers.0.labels", {}),
            ("spec.containers.0.command", "ls"),
            ("spec.containers.0.env", {"A": 1}),
            ("spec.containers.0.imagePullPolicy", "sometimes"),
            ("spec.containers.0.resources.limits", {}),
            ("spec.containers.0.resources.requests.cpu", "x"),
            ("spec.containers.0.resources.requests.cpu", 17),
            ("spec.containers.0.resources.requests.cpu", True),
            *((f"{REQUESTS}.cpu", text) for text in ("\u0661", "1_0", "1e1", " 1", "nan", "")),
            *((f"{REQUESTS}.memory", text) for text in ("\u0661\u0662\u0668", "1_28", " 128", "")),
            ("spec.containers.0.resources.requests.memory", 3),
            ("spec.containers.0.resources.requests.memory", 64.5),
            ("spec.containers.0.ports.0.containerPort", 0),
            ("spec.containers.0.ports.0.containerPort", 65536),
            ("spec.containers.0.ports.0.protocol", "DCCP"),
            ("spec.containers.0.volumeMounts.0.mountPath", "data"),
            ("spec.containers.0.volumeMounts.0.readOnly", "maybe"),
            ("spec.containers.0.stdin", 1.5),
            ("spec.initContainers.0.colour", "blue"),
            ("spec.volumes.0.name", None),
            ("spec.volumes.0.local.size", 0),
            ("spec.volumes.0.local.size", "2T"),
            ("spec.volumes.1.volume.name", "/etc"),
            ("spec.volumes.1.volume.name", "v" * 129),
        ]
    ),
    (changed("spec.initContainers", [{"command": ["true"]}]), "image"),
    (changed("spec.containers.0.volumeMounts.0.name", "missing"), "missing"),
    (changed("spec.containers.1.volumeMounts", []), "shared"),
    (changed("spec.volumes.1.name", "scratch"), "twice"),
    (changed("spec.volumes.0", {"name": "scratch"}), "cinder, local, emptyDir, volume"),
    (changed("spec.volumes.0.cinder", {"size": 1}), "cinder, local, emptyDir, volume"),
    (changed("spec.volumes.0", {"name": "scratch", "cinder": {"size": 1}}), "no Cinder"),
    (changed("spec.volumes.0", {"name": "scratch", "cinder": {"volumeID": MISSING}}), "no Cinder"),
    (changed("spec.containers.1.volumeMounts.1.mountPath", "/data2/"), "twice"),
]


@pytest.mark.parametrize(("body", "word"), BAD)
def test_a_bad_template_is_named_and_makes_nothing(api, scheduler, body, word):
    reply = api.post(PATH, body)
    assert reply.status == 400 and reply.refusal[1] in ("schema-validation-error", "invalid-value"), reply.json
    assert word in reply.error["detail"]
    assert rows() == [] and scheduler.sent == []


def test_null_is_as_if_it_were_left_out(api):
    """Programs write manifests with every member."""
    probe = dict.fromkeys(
        ("exec", "initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold")
    )
    probe["httpGet"] = {"port": 80, **dict.fromkeys(("path", "host", "scheme", "httpHeaders"))}
    container = {
        "image": "demo", "livenessProbe": probe, "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        **dict.fromkeys(("name", "restartPolicy", "startupProbe", "readinessProbe", "placement", "devices")),
    }  # fmt: skip
    body = spec(
        container,
        volumes=[{"name": "data", "emptyDir": {"medium": None, "sizeLimit": "64M"}}],
        **dict.fromkeys(("initContainers", "terminationGracePeriodSeconds", "placement")),
    )
    reply = api.at("1.51").post(PATH, body)
    assert reply.status == 202, reply.error
    (row,) = rows()
    (member,) = db.members([row["uuid"]])[row["uuid"]]
    assert probes_of(member["request"]) == {Role.LIVENESS: Probe(Page(Connection(80)))}


def test_a_name_is_not_needed_and_not_unique(api):
    nameless = {"template": {"kind": "Capsule", "metadata": {}, "spec": {"containers": [{"image": "demo"}]}}}
    made = api.post(PATH, nameless).json
    assert made["name"] is None and made["containers"][0]["name"].startswith(f"capsule-{made['uuid']}-")
    uuids = [api.post(PATH, spec()).json["uuid"] for _ in range(2)]
    reply = api.get(f"{PATH}/small")
    assert reply.refusal == (409, "conflict") and ", ".join(uuids) in reply.error["detail"]


def test_lists(api, admin_api, small):
    api.in_project("other").post(PATH, spec())
    second = api.post(PATH, {"template": TEMPLATE}).json["uuid"]

    def uuids(client, query=""):
        return [each["uuid"] for each in client.get(f"{PATH}/{query}").json["capsules"]]

    assert uuids(api) == uuids(api, "?all_projects=1") == [small, second]
    assert uuids(api, f"?marker={small}") == [second]
    assert uuids(api, "?sort_key=name&sort_dir=desc&limit=1") == [second]
    assert uuids(admin_api) == [] and len(uuids(admin_api, "?all_projects=1")) == 3
    assert "all_projects=true" in admin_api.get(f"{PATH}?all_projects=1&limit=1").json["next"]
    assert api.get(PATH).json["capsules"][0] == api.get(f"{PATH}/{small}").json
    for query, refusal in [
        ("limit=0", (400, "invalid-value")),
        ("all_projects=maybe", (400, "invalid-value")),
        ("sort_key=labels", (400, "invalid-parameter-value")),
        (f"marker={MISSING}", (404, "container-not-found")),
    ]:
        assert api.get(f"{PATH}?{query}").refusal == refusal


def test_a_capsule_that_is_not_there_is_told_as_one(api):
    text = f"Capsule {MISSING} could not be found. List them with 'openstack appcontainer capsule list'."
    for path in (f"{PATH}/{MISSING}", f"{PATH}?marker={MISSING}"):
        error = api.get(path).error
        assert (error["title"], error["detail"]) == (text, text)


def test_capsules_and_containers_are_apart(api, admin_api, small):
    member = api.get(f"{PATH}/{small}").json["containers"][0]
    container = api.post("/v1/containers", {"image": "demo", "name": "alone"}).json["uuid"]
    for ident in (small, "small", member["uuid"], member["name"]):
        for client in (api, admin_api):
            if ident != member["uuid"]:
                assert client.get(f"/v1/containers/{ident}").refusal == (404, "container-not-found")
            told = (409, "conflict") if ident == member["uuid"] else (404, "container-not-found")
            assert client.delete(f"/v1/containers/{ident}").refusal == told
    for ident in (container, "alone", member["uuid"], member["name"], MISSING):
        assert api.get(f"{PATH}/{ident}").refusal == (404, "container-not-found")
        assert api.delete(f"{PATH}/{ident}").refusal == (404, "container-not-found")
    assert [each["uuid"] for each in api.get("/v1/containers").json["containers"]] == [container]
    # The capsule's container counts, its sandbox does not.
    in_use = api.get("/v1/quotas/demo?usages=1").json
    assert (in_use["containers"]["in_use"], in_use["cpu"]["in_use"]) == (2, 2.0)


def test_container_of_a_capsule_is_shown_by_its_uuid(api, admin_api, small):
    (member,) = api.get(f"{PATH}/{small}").json["containers"]
    shown = api.get(f"/v1/containers/{member['uuid']}").json
    assert {**shown, **member, "links": None} == {**shown, "links": None}
    assert api.in_project("other").get(f"/v1/containers/{member['uuid']}").refusal == (404, "container-not-found")
    everywhere = f"/v1/containers/{member['uuid']}?all_projects=1"
    assert admin_api.get(everywhere).json["uuid"] == member["uuid"]
    assert api.get(everywhere).refusal == (403, "policy-not-authorized")


def test_others_do_not_see_it(api, small):
    stranger = api.in_project("other")
    for ident in (small, "small"):
        assert stranger.get(f"{PATH}/{ident}").refusal == (404, "container-not-found")
        assert stranger.delete(f"{PATH}/{ident}").refusal == (404, "container-not-found")
    assert stranger.get(PATH).json["capsules"] == []
    assert api.delete(f"{PATH}/{small}?all_projects=1").refusal == (403, "policy-not-authorized")


def test_delete_before_it_has_a_host(api, compute, small):
    assert api.delete(f"{PATH}/{small}").status == 204
    assert api.get(f"{PATH}/{small}").status == 404
    assert db.members([small])[small] == [] and compute.sent == []


@pytest.mark.parametrize("status", ["Creating", "Running", "Stopped", "Error", "Deleting"])
def test_delete(admin_api, api, compute, small, status):
    with session.writer() as connection:
        table = db_containers.table
        connection.execute(table.update().where(table.c.uuid == small).values(status=status, host=HOST))
    deleter = admin_api if status == "Running" else api
    assert deleter.delete(f"{PATH}/{small}{'?all_projects=1' if deleter is admin_api else ''}").status == 204
    assert api.get(f"{PATH}/{small}").json["status"] == "Deleting"
    assert compute.sent == [("delete", small, {"force": True, "stop_timeout": None})]


def test_without_a_scheduler_it_says_so(api, scheduler):
    scheduler.failure = exceptions.SchedulerUnavailable(seconds=60)
    assert api.post(PATH, spec()).status == 503
    (made,) = api.get(PATH).json["capsules"]
    assert made["status"] == made["containers"][0]["status"] == "Error"
    assert "scheduler" in made["status_reason"]


def test_it_goes_where_its_volumes_are(api):
    with session.writer() as connection:
        volumes.hold(connection, "demo", ["data"], HOST)
    uuid = api.post(PATH, {"template": TEMPLATE}).json["uuid"]
    assert Container.get_by_uuid(admin_context(), uuid).request["host"] == HOST


def test_the_examples_of_the_guide_are_capsules(api):
    examples = re.findall(r"code-block:: yaml\n\n((?:    .*\n)+)", PAGE.read_text())
    for example, version, cpus in zip(examples, ("1.41", "1.51", "1.51"), (3.0, 3.0, 7.0), strict=True):
        reply = api.at(version).post(PATH, {"template": yaml.safe_load(textwrap.dedent(example))})
        assert reply.status == 202 and reply.json["cpu"] == cpus


@pytest.mark.parametrize(
    ("size", "said"),
    [({"cpu": "two"}, "'two' is not a number of CPUs"), ({"memory": "1g"}, "'1g' is not a whole number of MiB")],
)
def test_a_wrong_size_is_told_in_words(api, size, said):
    reply = api.post(PATH, spec({"image": "demo", "resources": {"requests": size}}))
    assert reply.status == 400 and said in reply.error["detail"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"resources": {"limits": {"cpu": 1}}}, "('limits' was unexpected); possible are requests"),
        ({"resources": {"requests": {"gpu": 1}}}, "('gpu' was unexpected); possible are cpu, memory"),
        ({"lifecycle": {}}, "('lifecycle' was unexpected); possible are args, command, devices, env"),
    ],
)
def test_unknown_member_is_answered_with_the_known(api, given, said):
    reply = api.post(PATH, spec({"image": "demo", **given}))
    assert reply.status == 400 and said in reply.error["detail"]


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "web", "image": "nginx", "resources": {"limits": {"memory": "128Mi"}}}]},
}


@pytest.mark.parametrize("template", [POD, {**POD, "kind": "Deployment"}, {**POD, "kind": "capsule"}])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_manifest_of_kubernetes_is_told_what_differs(api, template, as_text):
    reply = api.post(PATH, {"template": json.dumps(template) if as_text else template})
    assert reply.refusal == (400, "schema-validation-error")
    for said in ("template: it is a manifest of Kubernetes", "kind: capsule", "requests: {cpu: 1, memory: 512}"):
        assert said in reply.error["detail"]


PROBE = {"tcpSocket": {"port": 80}}
SIDECAR = {"image": "proxy", "name": "proxy", "restartPolicy": "Always", "startupProbe": PROBE}


def requested(uuid):
    """The column ``request`` of each container, by its name."""
    return {each["name"]: each["request"] for each in db.members([uuid])[uuid]}


def test_members_of_a_pod_keep_names_probes_and_policies(api, compute):
    own = {"image": "demo", "name": "job", "restartPolicy": "Never", "livenessProbe": PROBE,
           "readinessProbe": {"httpGet": {"port": 8080, "path": "/ok"}, "periodSeconds": 3}}  # fmt: skip
    body = spec(
        own, {"image": "demo", "name": "log"},
        initContainers=[{"image": "demo", "name": "setup"}, SIDECAR],
        terminationGracePeriodSeconds=30,
    )  # fmt: skip
    made = api.at("1.51").post(PATH, body).json
    assert [each["name"] for each in made["init_containers"]] == ["capsule-small-setup"]
    names = ["capsule-small-proxy", "capsule-small-job", "capsule-small-log"]
    assert [each["name"] for each in made["containers"]] == names
    policies = ["always", "no", "always"]
    assert [each["restart_policy"]["Name"] for each in made["containers"]] == policies
    plain = {"run": True, "grace": 30}
    assert requested(made["uuid"]) == {
        "capsule-small-setup": plain,
        "capsule-small-proxy": {**plain, "probes": {"startup": PROBE}, "sidecar": True},
        "capsule-small-job": {**plain, "probes": {"liveness": PROBE, "readiness": own["readinessProbe"]}},
        "capsule-small-log": plain,
    }
    with session.writer() as connection:
        table = db_containers.table
        connection.execute(table.update().where(table.c.uuid == made["uuid"]).values(status="Running", host=HOST))
    assert api.delete(f"{PATH}/{made['uuid']}").status == 204
    assert compute.sent == [("delete", made["uuid"], {"force": True, "stop_timeout": 30})]


def sized(image, cpu, memory, **members):
    return {"image": image, "resources": {"requests": {"cpu": cpu, "memory": memory}}, **members}


@pytest.mark.parametrize(
    ("inits", "cpu", "memory"),
    [
        ([], 3.0, "384"),
        ([sized("demo", 4, 512)], 4.0, "512"),
        # A sidecar runs beside the containers, and beside the init containers after it.
        ([sized("demo", 1, 128, restartPolicy="Always")], 4.0, "512"),
        ([sized("demo", 1, 128, restartPolicy="Always"), sized("demo", 4, 128)], 5.0, "512"),
        ([sized("demo", 4, 128), sized("demo", 1, 128, restartPolicy="Always")], 4.0, "512"),
        ([sized("demo", 4, 128, restartPolicy="OnFailure")], 4.0, "384"),
    ],
)
def test_the_claim_is_the_most_at_one_time(api, inits, cpu, memory):
    body = spec(sized("demo", 2, 256), sized("demo", 1, 128), initContainers=inits)
    made = api.at("1.51").post(PATH, body).json
    assert (made["cpu"], made["memory"]) == (cpu, memory)


def test_empty_volumes_on_disk_and_in_memory(api):
    mounts = [{"name": "fast", "mountPath": "/fast"}, {"name": "wide", "mountPath": "/wide", "readOnly": True}]
    volumes = [
        {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "64M"}},
        {"name": "wide", "emptyDir": {"sizeLimit": 2}},
    ]
    body = spec(sized("demo", 1, 128, volumeMounts=mounts), sized("demo", 1, 128, volumeMounts=mounts), volumes=volumes)
    made = api.at("1.51").post(PATH, body).json
    assert made["memory"] == "320"  # the volume is claimed beside the memory of the containers
    row = db_containers.get(made["uuid"])
    assert [(each["type"], each["size_mib"]) for each in row["mounts"]] == [("memory", 64), ("local", 2048)]
    assert row["volume_disk"] == 2
    for each in db.members([made["uuid"]])[made["uuid"]]:
        assert [(mount["destination"], mount.get("read_only")) for mount in each["mounts"]] == [
            ("/fast", None),
            ("/wide", True),
        ]


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"livenessProbe": {}}, "containers.0.livenessProbe: it needs exactly one of exec, httpGet and tcpSocket"),
        ({"livenessProbe": {**PROBE, "successThreshold": 2}}, "livenessProbe: successThreshold must be 1, except"),
        (
            {"readinessProbe": {"tcpSocket": {"port": 0}}},
            "spec.containers.0.readinessProbe.tcpSocket.port: it must be a whole number from 1 to 65535, got 0",
        ),
        ({"readinessProbe": {"tcpSocket": {"port": 80, "host": "db.example"}}}, "neither an IP address nor localhost"),
        (
            {"readinessProbe": {**PROBE, "timeoutSeconds": 0}},
            "spec.containers.0.readinessProbe.timeoutSeconds: it must be a whole number from 1 to 60, got 0",
        ),
        ({"readinessProbe": {**PROBE, "timeoutSeconds": 1.5}}, "it must be a whole number from 1 to 60, got 1.5"),
        (
            {"ports": [{"containerPort": 80}, {"containerPort": 0}]},
            "spec.containers.0.ports.1.containerPort: it must be a whole number from 1 to 65535, got 0",
        ),
        ({"readinessProbe": {"grpc": {"port": 80}}}, "'grpc' was unexpected"),
        ({"readinessProbe": {"httpGet": {"port": 80, "path": "/a b"}}}, "path"),
        ({"readinessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "A", "value": "1\r\nB: 2"}]}}}, "value"),
        ({"startupProbe": {"exec": {"command": []}}}, "command"),
        ({"restartPolicy": "always"}, "restartPolicy"),
    ],
)
def test_a_wrong_probe_or_policy_is_named(api, members, said):
    reply = api.at("1.51").post(PATH, spec({"image": "demo", **members}))
    assert reply.status == 400 and said in reply.error["detail"]
    assert rows() == []


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"initContainers": [{"image": "demo", "livenessProbe": PROBE}]}, "an init container runs to its end"),
        (
            {"terminationGracePeriodSeconds": 3601},
            "spec.terminationGracePeriodSeconds: it must be a whole number from 0 to 3600, got 3601",
        ),
        (
            {"volumes": [{"name": "data", "local": {"size": 10**12}}]},
            "spec.volumes.0.local.size: '1000000000000' is 1024000000000000 MiB, which is not between 1 and",
        ),
        ({"volumes": [{"name": "data", "emptyDir": {}}]}, "emptyDir.sizeLimit: it is missing"),
        ({"volumes": [{"name": "data", "emptyDir": {"sizeLimit": "64M", "medium": "HugePages"}}]}, "medium"),
        ({"initContainers": [{"image": "demo", "name": "twin"}]}, "two containers would be called capsule-small-twin"),
    ],
)
def test_a_wrong_part_of_a_pod_is_named(api, members, said):
    reply = api.at("1.51").post(PATH, spec({"image": "demo", "name": "twin"}, **members))
    assert reply.status == 400 and said in reply.error["detail"]


@pytest.mark.parametrize(
    ("containers", "members", "path"),
    [
        ({"livenessProbe": PROBE}, {}, "spec.containers.0.livenessProbe"),
        ({"restartPolicy": "Never"}, {}, "spec.containers.0.restartPolicy"),
        ({}, {"terminationGracePeriodSeconds": 0}, "spec.terminationGracePeriodSeconds"),
        ({}, {"volumes": [{"name": "data", "emptyDir": {"sizeLimit": 1}}]}, "spec.volumes.0.emptyDir"),
    ],
)
def test_members_of_pods_need_their_version(api, containers, members, path):
    reply = api.at("1.50").post(PATH, spec({"image": "demo", "name": "web", **containers}, **members))
    assert reply.refusal[0] == 400 and f"template.{path}" in reply.error["detail"]
    # Before, the name is ignored, as in the reference.
    made = api.at("1.50").post(PATH, spec({"image": "demo", "name": "web"})).json
    assert not made["containers"][0]["name"].endswith("-web")


def test_containers_that_differ_wait_for_the_upgrade_of_all_hosts(api, compute, scheduler, monkeypatch):
    monkeypatch.setattr(compute, "can_act", lambda action: action != "capsule_members")
    own = {**sized("demo", 1, 128), "placement": {"cpu_policy": "dedicated"}}
    reply = api.at("1.51").post(PATH, spec(own, {"image": "demo"}))
    assert reply.refusal == (409, "conflict") and "remove [upgrade_levels] compute" in reply.error["detail"]
    assert rows() == [] and scheduler.sent == []
    assert api.at("1.51").post(PATH, spec({"image": "demo"})).status == 202
