# SPDX-License-Identifier: Apache-2.0
"""What all lists have in common: the parameters that choose a page, and no others than they know."""

import pytest

PAGED = (
    "aggregates", "availability_zones", "capsules", "containers", "groups", "hosts", "images", "networks", "registries",
)
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


@pytest.mark.parametrize("noun", [*PAGED, "services"])
def test_a_parameter_that_a_list_does_not_know(admin, noun):
    reply = admin.get(f"/v1/{noun}?colour=red")
    assert reply.refusal == (400, "invalid-value")
    assert reply.error["detail"].startswith("colour: no such parameter; possible are ")
    assert "limit" in reply.error["detail"]


@pytest.mark.parametrize("noun", sorted({*PAGED, "services"} - {*OF_ALL_PROJECTS}))
def test_a_list_that_is_of_one_project_says_so(admin, noun):
    assert admin.get(f"/v1/{noun}?all_projects=True").refusal == (400, "invalid-value")


@pytest.mark.parametrize("noun", FOR_ADMINISTRATORS)
def test_the_form_comes_before_the_policy(api, noun):
    api = api.at("latest")
    assert api.get(f"/v1/{noun}?colour=red").refusal == (400, "invalid-value")
    assert api.get(f"/v1/{noun}").refusal == (403, "policy-not-authorized")
