# SPDX-License-Identifier: Apache-2.0
"""The form in which requests ask for traits and aggregates, and the form in which the API shows it."""

import pytest

from zun.db import aggregates
from zun.db import containers as db

AVX, AVX2 = "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"
FIELDS = ("required_traits", "forbidden_traits", "any_traits", "member_of")


@pytest.fixture
def api(api):
    return api.at("1.44")


@pytest.fixture
def south(database):
    return aggregates.insert("south", {})["uuid"]


def asked(api, **fields):
    return api.post("/v1/containers", {"image": "demo", **fields})


def of(shown):
    return {name: shown[name] for name in FIELDS}


def test_what_is_asked_is_stored_and_shown(api, south):
    fields = {
        "required_traits": [AVX, "CUSTOM_A", AVX],
        "forbidden_traits": ["CUSTOM_B"],
        "any_traits": [["CUSTOM_C", AVX2], ["CUSTOM_B", "CUSTOM_D"]],
        "member_of": [["south", south], [south]],
    }
    stored = fields | {"required_traits": [AVX, "CUSTOM_A"], "member_of": [[south, south], [south]]}
    created = asked(api, **fields).json
    assert of(created) == of(api.get(f"/v1/containers/{created['uuid']}").json) == stored
    assert of(api.get("/v1/containers").json["containers"][0]) == stored
    assert db.get(created["uuid"])["placement"] == stored
    assert not api.at("1.43").get(f"/v1/containers/{created['uuid']}").json.keys() & set(FIELDS)


def test_with_dedicated_cpus_both_are_shown(api, south):
    wanted = {"cpu_policy": "dedicated", "cpu": 2, "memory": 64, "required_traits": [AVX]}
    shown = asked(api, **wanted).json
    assert (shown["numa_nodes"], shown["required_traits"], shown["member_of"]) == (1, [AVX], None)


@pytest.mark.parametrize("nothing", [None, []])
def test_null_and_an_empty_list_ask_for_no_trait(api, nothing):
    assert of(asked(api, **dict.fromkeys(FIELDS, nothing)).json) == dict.fromkeys(FIELDS)


@pytest.mark.parametrize("path", ["containers", "placement/dry_run", "placement/capacity"])
@pytest.mark.parametrize("field", FIELDS)
def test_older_versions_refuse_the_fields(api, path, field):
    body = {"image": "demo", field: []}
    reply = api.at("1.43").post(f"/v1/{path}", body)
    assert reply.refusal == (400, "invalid-param-in-version")
    assert field in reply.error["detail"] and "1.44" in reply.error["detail"]
    assert api.post(f"/v1/{path}", body).status < 300


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"required_traits": "CUSTOM_A"}, "schema-validation-error", "required_traits"),
        ({"required_traits": ["avx"]}, "schema-validation-error", "required_traits.0: 'avx' is not the name of a"),
        ({"required_traits": [AVX + "3"]}, "schema-validation-error", f"required_traits: {AVX}3 is not a trait of os-"),
        ({"forbidden_traits": ["HW_X"]}, "schema-validation-error", "forbidden_traits: HW_X is not a trait of os-"),
        ({"forbidden_traits": ["CUSTOM_" + "A" * 249]}, "schema-validation-error", "forbidden_traits.0: "),
        ({"any_traits": [AVX]}, "schema-validation-error", "any_traits.0"),
        ({"any_traits": [[]]}, "schema-validation-error", "any_traits.0"),
        ({"any_traits": [[AVX, "HW_X"]]}, "schema-validation-error", "any_traits: HW_X is not a trait of os-traits"),
        ({"member_of": [[""]]}, "schema-validation-error", "member_of.0.0"),
        ({"member_of": [["a" * 255] * 20]}, "schema-validation-error", "member_of: it has"),
        ({"member_of": [["nowhere"]]}, "invalid-value", "member_of: there is no aggregate 'nowhere'"),
        (
            {"required_traits": [AVX, AVX2], "forbidden_traits": [AVX2]},
            "invalid-value",
            f"forbidden_traits: {AVX2} is required and forbidden",
        ),
        (
            {"any_traits": [[AVX, AVX2]], "forbidden_traits": [AVX2, AVX]},
            "invalid-value",
            f"any_traits: each of {AVX}, {AVX2} is forbidden",
        ),
        (
            {"hints": {f"image:trait:{AVX}": "required"}, "forbidden_traits": [AVX]},
            "invalid-value",
            f"forbidden_traits: {AVX} is required and forbidden",
        ),
        ({"hints": {"image:trait:HW_X": "required"}}, "invalid-value", "hints.image:trait:HW_X: HW_X is not a trait"),
        ({"hints": {f"image:trait:{AVX}": "yes"}}, "invalid-value", "must be required or forbidden, got 'yes'"),
        ({"hints": {f"image:trait:{AVX}": ["required"]}}, "invalid-value", "must be required or forbidden, got"),
    ],
)
@pytest.mark.parametrize("path", ["containers", "placement/dry_run"])
def test_what_no_host_can_satisfy_is_refused(api, path, fields, code, text):
    reply = api.post(f"/v1/{path}", {"image": "demo", **fields})
    assert reply.refusal == (400, code)
    assert text in reply.error["detail"]


def test_traits_of_images_are_hints_of_1_44(api):
    hints = {f"image:trait:{AVX}": "required"}
    reply = asked(api.at("1.43"), hints=hints)
    assert reply.refusal == (400, "invalid-param-in-version") and "1.44" in reply.error["detail"]
    assert asked(api, hints=hints).status == 202


def capsule(**placement):
    spec = {"containers": [{"image": "demo"}], "placement": placement}
    return {"template": {"kind": "capsule", "metadata": {}, "spec": spec}}


def test_a_capsule_asks_likewise(api, south):
    created = api.post("/v1/capsules", capsule(required_traits=[AVX], member_of=[["south"]])).json
    expected = dict.fromkeys(FIELDS) | {"required_traits": [AVX], "member_of": [[south]]}
    assert of(created) == of(api.get(f"/v1/capsules/{created['uuid']}").json) == expected
    assert db.get(created["uuid"])["placement"] == {"required_traits": [AVX], "member_of": [[south]]}
    assert "required_traits" not in api.at("1.43").get(f"/v1/capsules/{created['uuid']}").json
    reply = api.at("1.43").post("/v1/capsules", capsule(required_traits=[AVX]))
    assert reply.refusal == (400, "invalid-param-in-version") and "required_traits" in reply.error["detail"]
    reply = api.post("/v1/capsules", capsule(required_traits=[AVX], forbidden_traits=[AVX]))
    assert reply.refusal == (400, "invalid-value")
