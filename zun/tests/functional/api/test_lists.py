# SPDX-License-Identifier: Apache-2.0
"""Parameters that all lists share: they choose a page, and unknown ones are refused from 1.41 on."""

import urllib.parse

import pytest
import sqlalchemy as sa

from zun.api import microversion
from zun.db import aggregates, models, session
from zun.tests.functional.api.samples import TEMPLATE

BY_HAND = ["no JSON", "5", '"x"', "true", "null", "[5]", '{"x": 5}', '{"80/tcp": {"host_port": [1]}}']
PAGED = (
    "aggregates", "availability_zones", "capsules", "containers", "groups", "hosts", "images", "networks", "registries",
)
OLD = ("availability_zones", "capsules", "containers", "hosts", "images", "registries", "services")
OF_ALL_PROJECTS = ("capsules", "containers", "groups", "networks", "registries")
FOR_ADMINISTRATORS = ("aggregates", "hosts", "services")


@pytest.fixture
def admin(admin_api):
    return admin_api.at("latest")


@pytest.mark.parametrize("noun", [*PAGED, "services"])
@pytest.mark.parametrize("query", ["limit=5", "sort_dir=asc", "expand=True", "resource_url=x", "marker="])
def test_what_every_list_takes(admin, noun, query):
    """Among it all that the stock clients send."""
    assert admin.get(f"/v1/{noun}/?{query}").status == 200


@pytest.mark.parametrize("noun", OF_ALL_PROJECTS)
@pytest.mark.parametrize("value", ["1", "True", "False"])
def test_lists_of_all_projects(admin, noun, value):
    assert admin.get(f"/v1/{noun}/?all_projects={value}").status == 200


@pytest.mark.parametrize("limit", ["0", "-1", "1e3", "\u0661", "1" * 16])
def test_a_limit_that_is_none_is_told_what_one_is(admin, limit):
    reply = admin.get(f"/v1/containers?limit={urllib.parse.quote(limit)}")
    said = f"limit: '{limit}' is not a whole number from 1 on, of at most 15 digits."
    assert (reply.refusal, reply.error["detail"]) == ((400, "invalid-value"), said)
    assert admin.get(f"/v1/containers?limit={'9' * 15}").status == 200


@pytest.mark.parametrize("noun", [*PAGED, "services"])
def test_a_parameter_that_a_list_does_not_know(admin, noun):
    reply = admin.get(f"/v1/{noun}?colour=red")
    assert reply.refusal == (400, "invalid-value")
    assert reply.error["detail"].startswith("colour: no such parameter; possible are ")
    assert "limit" in reply.error["detail"]


@pytest.mark.parametrize("noun", OLD)
@pytest.mark.parametrize("query", ["colour=red", "all_projects=True&colour=", "is_public=None&limit=5", "Limit=x"])
def test_unknown_parameters_are_ignored_up_to_1_40(admin, noun, query):
    for version in ("1.4", "1.40"):
        reply = admin.at(version).get(f"/v1/{noun}?{query}")
        assert reply.status == 200
        assert reply.json == admin.at(version).get(f"/v1/{noun}?{'limit=5' if 'limit=5' in query else ''}").json
    assert admin.at("1.41").get(f"/v1/{noun}?{query}").refusal == (400, "invalid-value")


@pytest.mark.parametrize("noun", OLD)
def test_a_bad_page_is_refused_beside_unknown_ones(admin, noun):
    if noun != "services":  # that list has no pages
        assert admin.at("1.40").get(f"/v1/{noun}?colour=red&limit=x").refusal == (400, "invalid-value")


@pytest.mark.parametrize("noun", sorted({*PAGED, "services"} - {*OF_ALL_PROJECTS}))
def test_a_list_that_is_of_one_project_says_so(admin, noun):
    assert admin.get(f"/v1/{noun}?all_projects=True").refusal == (400, "invalid-value")


@pytest.mark.parametrize("noun", FOR_ADMINISTRATORS)
def test_the_form_comes_before_the_policy(api, noun):
    api = api.at("latest")
    assert api.get(f"/v1/{noun}?colour=red").refusal == (400, "invalid-value")
    assert api.get(f"/v1/{noun}").refusal == (403, "policy-not-authorized")


@pytest.mark.parametrize("value", BY_HAND)
@pytest.mark.parametrize("column", [each.name for each in models.containers.c if isinstance(each.type, sa.JSON)])
def test_a_value_that_somebody_wrote_by_hand_hides_no_other_row(admin_api, placed, column, value):
    damaged, whole = placed(project_id="admin"), placed(project_id="admin")
    capsules = [admin_api.post("/v1/capsules", {"template": TEMPLATE}).json["uuid"] for _ in range(2)]
    with session.writer() as connection:
        change = sa.text(f"UPDATE containers SET {column} = :value WHERE uuid IN (:one, :two) OR capsule_uuid = :two")
        connection.execute(change, {"value": value, "one": damaged.uuid, "two": capsules[0]})
    for version in ("1.1", str(microversion.MAX)):
        asked = admin_api.at(version)
        listed = [each["uuid"] for each in asked.get("/v1/containers").json["containers"]]
        assert listed == [damaged.uuid, whole.uuid]
        assert [each["uuid"] for each in asked.get("/v1/capsules").json["capsules"]] == capsules
        assert asked.get(f"/v1/containers/{damaged.uuid}").json["uuid"] == damaged.uuid
        assert asked.get(f"/v1/capsules/{capsules[0]}").json["uuid"] == capsules[0]


@pytest.mark.parametrize("value", ["no JSON", "5", "null", "[[1]]", '{"availability_zone": [1]}'])
@pytest.mark.parametrize("column", ["metadata", "hosts"])
def test_an_aggregate_that_somebody_wrote_by_hand_hides_no_zone(admin_api, host_row, column, value):
    made = [aggregates.insert(name, {"availability_zone": "west"})["uuid"] for name in ("damaged", "whole")]
    with session.writer() as connection:
        change = sa.text(f"UPDATE aggregates SET {column} = :value WHERE name = 'damaged'")
        connection.execute(change, {"value": value})
    listed = admin_api.at(str(microversion.MAX)).get("/v1/aggregates").json["aggregates"]
    assert [each["uuid"] for each in listed] == made
    assert admin_api.get("/v1/availability_zones").status == 200
