# SPDX-License-Identifier: Apache-2.0
"""The form in which requests ask for devices, and the form in which the API shows it."""

import json

import pytest

from zun.api import app as api_app
from zun.api.settings import Settings
from zun.common import exceptions
from zun.db import containers as db
from zun.tests.functional.api.client import Client
from zun.tests.functional.api.conftest import HOST
from zun.topology import CellShare, CpuSet, Plan
from zun.topology.device_request import DeviceMatch, DeviceRequest, GivenDevice

FIELDS = ("devices", "device_numa_policy", "device_same")
ALIASES = (
    {"name": "gpu", "vendor_id": "10de", "numa_policy": "required"},
    {"name": "gpu", "vendor_id": "1002"},
    {"name": "nic", "resource_class": "CUSTOM_NIC"},
)
GPUS = (DeviceMatch(vendor_id="10de"), DeviceMatch(vendor_id="1002"))
NICS = (DeviceMatch(resource_class="CUSTOM_NIC"),)


@pytest.fixture
def application(database, configuration, scheduler, compute):
    configuration.set_override("alias", [json.dumps(each) for each in ALIASES], group="devices")
    return api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)


@pytest.fixture
def api(application):
    return Client(application, user="alice", project="demo", roles="member", version="1.45")


def asked(api, **fields):
    return api.post("/v1/containers", {"image": "demo", **fields})


def of(shown):
    return {name: shown[name] for name in FIELDS}


def stored(reply):
    return [DeviceRequest.from_dict(each) for each in db.get(reply.json["uuid"])["placement"].get("devices", ())]


def entry(name="gpu", count=1, *, policy="preferred", traits=(), given=(), key="alias"):
    return {key: name, "count": count, "traits": list(traits), "numa_policy": policy, "given": list(given)}


def test_asked_devices_are_stored_and_shown(api):
    fields = {
        "devices": [
            {"alias": "gpu", "count": 2, "traits": ["CUSTOM_A", "CUSTOM_A"]},
            {"alias": "nic", "numa_policy": "socket"},
            {"resource_class": "fpga", "count": 3},
        ],
        "device_same": "switch",
    }
    reply = asked(api, **fields)
    assert reply.status == 202
    expected = {
        "devices": [
            entry(count=2, policy="required", traits=["CUSTOM_A"]),
            entry("nic", policy="socket"),
            entry("FPGA", 3, key="resource_class"),
        ],
        "device_numa_policy": None,
        "device_same": "switch",
    }
    uuid = reply.json["uuid"]
    assert of(reply.json) == of(api.get(f"/v1/containers/{uuid}").json) == expected
    assert of(api.get("/v1/containers").json["containers"][0]) == expected
    assert stored(reply) == [
        DeviceRequest("gpu", 2, GPUS, ("CUSTOM_A",), "required"),
        DeviceRequest("nic", 1, NICS, (), "socket"),
        DeviceRequest("FPGA", 3, (DeviceMatch(resource_class="FPGA"),)),
    ]
    assert not api.at("1.44").get(f"/v1/containers/{uuid}").json.keys() & set(FIELDS)


def test_policy_of_the_container_overrides_that_of_aliases(api):
    fields = {"devices": [{"alias": "gpu"}, {"alias": "nic", "numa_policy": "none"}], "device_numa_policy": "socket"}
    reply = asked(api, **fields)
    assert [each.numa_policy for each in stored(reply)] == ["socket", "none"]
    assert reply.json["device_numa_policy"] == "socket"


def test_given_devices_are_shown_with_their_requests(api, placed):
    requests = [DeviceRequest("gpu", 2, GPUS), DeviceRequest("nic", 1, NICS), DeviceRequest("gpu", 1, GPUS)]
    given = [GivenDevice("gpu", "0000:81:00.0", 1), GivenDevice("gpu", "0000:82:00.0", 1)]
    given += [GivenDevice("nic", "0000:05:00.1"), GivenDevice("gpu", "0000:01:00.0", 0)]
    plan = Plan({0: CellShare(cpus=CpuSet("0-1"))}, devices=tuple(given))
    row = placed(placement={"devices": [each.to_dict() for each in requests]}, cpuset=plan.to_dict(), host=HOST)
    shown = api.get(f"/v1/containers/{row.uuid}").json["devices"]
    assert [[(each["address"], each["cell"]) for each in request["given"]] for request in shown] == [
        [("0000:81:00.0", 1), ("0000:82:00.0", 1)],
        [("0000:05:00.1", None)],
        [("0000:01:00.0", 0)],
    ]


@pytest.mark.parametrize("nothing", [None, []])
def test_null_and_an_empty_list_ask_for_nothing(api, nothing):
    reply = asked(api, devices=nothing, device_numa_policy=None, device_same=None)
    assert of(reply.json) == dict.fromkeys(FIELDS)
    assert "devices" not in db.get(reply.json["uuid"])["placement"]


@pytest.mark.parametrize("path", ["containers", "placement/dry_run", "placement/capacity"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("devices", []),
        ("device_numa_policy", "required"),
        ("device_same", "cell"),
        ("hints", {"image:pci_passthrough:alias": "gpu:1"}),
        ("hints", {"image:hw_pci_numa_affinity_policy": "none"}),
    ],
)
def test_older_versions_refuse_devices(api, path, field, value):
    reply = api.at("1.44").post(f"/v1/{path}", {"image": "demo", field: value})
    assert reply.refusal == (400, "invalid-param-in-version")
    assert field in reply.error["detail"] and "1.45" in reply.error["detail"]


@pytest.mark.parametrize("path", ["containers", "placement/dry_run", "placement/capacity"])
def test_linked_devices_are_asked_for_from_1_47_on(api, path):
    fields = {"image": "demo", "devices": [{"alias": "gpu", "count": 4}], "device_same": "link"}
    reply = api.at("1.46").post(f"/v1/{path}", fields)
    assert reply.refusal == (400, "invalid-param-in-version")
    assert "device_same" in reply.error["detail"] and "1.47" in reply.error["detail"]
    assert api.at("1.47").post(f"/v1/{path}", fields).status in (200, 202)


def test_a_container_shows_that_its_devices_are_linked(api):
    reply = asked(api.at("1.47"), devices=[{"alias": "gpu", "count": 4}], device_same="link")
    assert reply.json["device_same"] == api.get(f"/v1/containers/{reply.json['uuid']}").json["device_same"] == "link"
    assert db.get(reply.json["uuid"])["placement"]["device_same"] == "link"


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"devices": "gpu"}, "schema-validation-error", "devices"),
        ({"devices": [{"count": 1}]}, "schema-validation-error", "devices.0"),
        ({"devices": [{"alias": "gpu", "resource_class": "PGPU"}]}, "schema-validation-error", "devices.0"),
        ({"devices": [{"alias": "gpu", "count": 0}]}, "schema-validation-error", "devices.0.count"),
        ({"devices": [{"alias": "gpu", "count": 65}]}, "schema-validation-error", "devices.0.count"),
        ({"devices": [{"alias": "gpu", "count": "2"}]}, "schema-validation-error", "devices.0.count"),
        ({"devices": [{"alias": "gpu", "numa_policy": "legacy"}]}, "schema-validation-error", "devices.0.numa_policy"),
        ({"devices": [{"alias": "gpu", "vendor_id": "10de"}]}, "schema-validation-error", "devices.0"),
        ({"devices": [{"alias": "gpu", "traits": ["AVX"]}]}, "schema-validation-error", "AVX is not a trait"),
        ({"devices": [{"alias": "gpu"}] * 17}, "schema-validation-error", "devices: it is too long"),
        ({"device_same": "rack"}, "schema-validation-error", "device_same: 'rack' is not one of none, link, switch"),
        ({"devices": [{"alias": "tpu"}]}, "invalid-value", "devices: there is no alias 'tpu'. This cloud has gpu, nic"),
        ({"device_same": "switch"}, "invalid-value", "device_same: it is about devices: ask for devices with it"),
        ({"devices": [], "device_numa_policy": "none"}, "invalid-value", "device_numa_policy: it is about devices"),
        ({"hints": {"image:pci_passthrough:alias": "gpu"}}, "invalid-value", "'gpu' has no number from 1 to 64"),
        ({"hints": {"image:pci_passthrough:alias": "gpu:0"}}, "invalid-value", "'gpu:0' has no number from 1 to 64"),
        ({"hints": {"image:pci_passthrough:alias": "tpu:1"}}, "invalid-value", "there is no alias 'tpu'"),
        ({"hints": {"image:pci_passthrough:alias": ["gpu:1"]}}, "invalid-value", "there is no alias"),
        (
            {"hints": {"image:hw_pci_numa_affinity_policy": "legacy"}},
            "invalid-value",
            "hints.image:hw_pci_numa_affinity_policy: the policy legacy is not known here",
        ),
        (
            {"hints": {"image:pci_numa_affinity_policy": "near"}},
            "invalid-value",
            "hints.image:pci_numa_affinity_policy: it must be one of none, preferred, required, socket",
        ),
        (
            {
                "hints": {"image:hw_pci_numa_affinity_policy": "socket"},
                "devices": [{"alias": "gpu"}],
                "device_numa_policy": "none",
            },
            "invalid-value",
            "the image needs socket, and the request says none",
        ),
    ],
)
@pytest.mark.parametrize("path", ["containers", "placement/dry_run"])
def test_what_cannot_be_given_is_refused(api, path, fields, code, text):
    reply = api.post(f"/v1/{path}", {"image": "demo", **fields})
    assert reply.refusal == (400, code)
    assert text in reply.error["detail"]


@pytest.mark.parametrize(
    ("devices", "image", "counts"),
    [
        ([], "gpu:2, nic:1", [("gpu", 2), ("nic", 1)]),
        ([("gpu", 3)], "gpu:2", [("gpu", 3)]),
        ([("gpu", 1), ("nic", 1)], "gpu:1,gpu:2", [("gpu", 1), ("nic", 1), ("gpu", 2)]),
    ],
    ids=["image-alone", "request-has-enough", "image-needs-more"],
)
def test_devices_of_the_image_join_the_request(api, devices, image, counts):
    hints = {"image:pci_passthrough:alias": image, "image:hw_pci_numa_affinity_policy": "socket"}
    reply = asked(api, hints=hints, devices=[{"alias": name, "count": count} for name, count in devices])
    assert [(each.name, each.count, each.numa_policy) for each in stored(reply)] == [
        (name, count, "socket") for name, count in counts
    ]



OWN = "/v1/quotas/demo"


@pytest.fixture
def admin(application):
    return Client(application, user="root", project="admin", roles="admin", version="1.46")


@pytest.fixture
def limited(configuration):
    """Before ``application`` reads it."""
    configuration.set_override("devices", {"nic": "3"}, group="quota")


def of_devices(reply):
    return {name: value for name, value in reply.json.items() if name.startswith("device:")}


@pytest.mark.usefixtures("limited", "host_row")
def test_quota_of_devices_by_alias(api, admin):
    """Default limits, a limit of the class and one of the project; the refusal names alias, limit and use."""
    assert of_devices(admin.get(OWN)) == {"device:gpu": -1, "device:nic": 3}
    assert of_devices(api.get(OWN)) == {}, "version 1.45 has none"
    assert of_devices(admin.put("/v1/quota_classes/default", {"device:nic": 2}))["device:nic"] == 2
    assert of_devices(admin.put(OWN, {"device:gpu": "2", "device:FPGA": 0})) == {
        "device:FPGA": 0, "device:gpu": 2, "device:nic": 2,
    }
    assert asked(api, devices=[{"alias": "gpu"}, {"alias": "nic", "count": 2}]).status == 202
    used = of_devices(admin.get(f"{OWN}?usages=1"))
    assert used == {
        "device:FPGA": {"limit": 0, "in_use": 0},
        "device:gpu": {"limit": 2, "in_use": 1},
        "device:nic": {"limit": 2, "in_use": 2},
    }
    for entry, words in (
        ({"alias": "gpu", "count": 2}, "device:gpu: limit 2, in use 1, asked for 2 more"),
        ({"alias": "nic"}, "device:nic: limit 2, in use 2, asked for 1 more"),
        ({"resource_class": "fpga"}, "device:FPGA: limit 0, in use 0, asked for 1 more"),
    ):
        reply = asked(api, devices=[entry])
        assert reply.status == 403 and words in reply.error["detail"]
    assert asked(api, devices=[{"alias": "gpu"}]).status == 202
    assert admin.delete(OWN).status == 200
    assert of_devices(admin.get(OWN)) == {"device:gpu": -1, "device:nic": 2}


@pytest.mark.parametrize(("version", "body", "words"), [
    ("1.45", {"device:gpu": 1}, ("device:gpu", "1.46")),
    ("1.46", {"device:gpuu": 1}, ("there is no alias 'gpuu'", "gpu, nic", "device:CUSTOM_GPUU")),
    ("1.46", {"device:": 1}, ("device:",)),
    ("1.46", {"device:gpu": "many"}, ("device:gpu", "whole number")),
    ("1.46", {"device:gpu": -2}, ("device:gpu", "-1")),
])
@pytest.mark.parametrize("path", [OWN, "/v1/quota_classes/default"])
def test_limit_of_devices_that_is_wrong(admin, path, version, body, words):
    reply = admin.at(version).put(path, body)
    assert reply.status == 400
    assert all(each in reply.error["detail"] for each in words), reply.error


@pytest.mark.parametrize(("option", "words"), [
    ({"gpuu": "1"}, r"\[quota\] devices = gpuu:1: .* no alias 'gpuu'"),
    ({"gpu": "many"}, r"\[quota\] devices = gpu:many"),
    ({"gpu": "-5"}, r"\[quota\] devices = gpu:-5"),
])
def test_default_limit_that_is_wrong(configuration, option, words):
    configuration.set_override("alias", [json.dumps(each) for each in ALIASES], group="devices")
    configuration.set_override("devices", option, group="quota")
    with pytest.raises(exceptions.Misconfigured, match=words):
        Settings.from_conf(configuration)


@pytest.mark.parametrize("status", ["Running", "Stopped"])
@pytest.mark.parametrize("change", [
    {"devices": [{"alias": "gpu", "count": 2}]}, {"devices": []}, {"device_same": "cell"},
    {"device_numa_policy": "none", "cpu": 2},
])
@pytest.mark.parametrize(("method", "path"), [("PATCH", ""), ("POST", "/resize_container")])
def test_a_new_size_changes_no_devices(api, placed, method, path, change, status):
    uuid = asked(api, devices=[{"alias": "gpu"}]).json["uuid"]
    db.update(uuid, {"host": HOST, "status": status})
    before = db.get(uuid)
    reply = api.at("1.46").send(method, f"/v1/containers/{uuid}{path}", change)
    assert reply.status == 409
    assert f"{next(iter(change))}: container" in reply.error["detail"], reply.error
    assert "Nothing was changed. Create another container" in reply.error["detail"]
    assert db.get(uuid) == before
    older = api.send(method, f"/v1/containers/{uuid}{path}", change)
    assert older.status == 400 and "1.46" in older.error["detail"]


def test_null_devices_of_a_new_size_change_nothing(api, placed):
    uuid = asked(api, devices=[{"alias": "gpu"}]).json["uuid"]
    db.update(uuid, {"host": HOST, "status": "Running"})
    assert api.at("1.46").patch(f"/v1/containers/{uuid}", {"devices": None, "name": "other"}).status == 200


def capsule(*containers, **spec):
    entries = [{"image": "demo", **each} for each in containers]
    return {"template": {"kind": "capsule", "metadata": {"name": "pod"}, "spec": {"containers": entries, **spec}}}


def test_containers_of_a_capsule_ask_for_devices(api, admin):
    """Each container shows its own; the capsule's one claim has all in their order, and the quota counts them once."""
    api = api.at("1.46")
    body = capsule({"devices": [{"alias": "nic", "count": 2}]}, {}, {"devices": [{"alias": "gpu"}, {"alias": "nic"}]})
    reply = api.post("/v1/capsules", body)
    assert reply.status == 202, reply.error
    uuid = reply.json["uuid"]
    assert stored(reply) == [
        DeviceRequest("nic", 2, NICS), DeviceRequest("gpu", 1, GPUS, (), "required"), DeviceRequest("nic", 1, NICS),
    ]
    shown = api.get(f"/v1/capsules/{uuid}").json["containers"]
    assert [each["devices"] for each in shown] == [
        [entry("nic", 2)], None, [entry(policy="required"), entry("nic")],
    ]
    used = of_devices(admin.get(f"{OWN}?usages=1"))
    assert {name: each["in_use"] for name, each in used.items()} == {"device:gpu": 1, "device:nic": 3}
    assert admin.put(OWN, {"device:nic": 4}).status == 200
    refused = api.post("/v1/capsules", body)
    assert refused.status == 403 and "device:nic: limit 4, in use 3, asked for 3 more" in refused.error["detail"]


@pytest.mark.parametrize(("version", "body", "words"), [
    ("1.45", capsule({"devices": [{"alias": "gpu"}]}), ("template.spec.containers.0.devices", "1.46")),
    ("1.46", capsule({"devices": [{"alias": "tpu"}]}), ("spec.containers.0.devices: there is no alias 'tpu'",)),
    ("1.46", capsule({}, {"devices": [{"alias": "gpu", "count": 0}]}), ("spec.containers.1.devices.0.count",)),
    (
        "1.46", capsule({}, initContainers=[{"image": "demo", "devices": [{"alias": "gpu"}]}]),
        ("spec.initContainers.0.devices", "spec.containers"),
    ),
    ("1.46", capsule(*[{"devices": [{"alias": "gpu"}]}] * 17), ("spec.containers: 17 entries", "16")),
])
def test_devices_of_a_capsule_that_are_wrong(api, version, body, words):
    reply = api.at(version).post("/v1/capsules", body)
    assert reply.status == 400
    assert all(each in reply.error["detail"] for each in words), reply.error


def test_a_resource_that_does_not_exist_is_named(admin):
    reply = admin.put(OWN, {"device:gpu": 1, "gpus": 1})
    assert reply.status == 400
    assert "('gpus' was unexpected); possible are containers, cpu" in reply.error["detail"]
