# SPDX-License-Identifier: Apache-2.0
"""Linux capabilities that containers ask for."""

import pytest

from zun.common.context import admin_context
from zun.objects import Container


def asked(api, capabilities, version="1.46"):
    return api.at(version).post("/v1/containers", {"image": "demo", "capabilities": capabilities})


@pytest.mark.parametrize(
    ("given", "shown"),
    [(["NET_RAW"], ["NET_RAW"]), (["NET_RAW", "CHOWN", "NET_RAW"], ["CHOWN", "NET_RAW"]), ([], []), (None, [])],
)
def test_asked_capabilities_are_stored_and_shown(api, given, shown):
    reply = asked(api, given)
    assert (reply.status, reply.json["capabilities"]) == (202, shown)
    uuid = reply.json["uuid"]
    assert (Container.get_by_uuid(admin_context(), uuid).capabilities or []) == shown
    assert api.at("1.46").get("/v1/containers").json["containers"][0]["capabilities"] == shown
    assert "capabilities" not in api.at("1.45").get(f"/v1/containers/{uuid}").json


@pytest.mark.parametrize(
    "given", [["CAP_NET_RAW"], ["net_raw"], ["ALL"], ["SYS_MODULE"], "NET_RAW", [1], {"NET_RAW": 1}]
)
def test_other_names_are_refused(api, given):
    reply = asked(api, given)
    assert reply.status == 400 and "capabilities" in reply.error["detail"]


@pytest.mark.parametrize("given", [["NET_RAW"], []])
def test_older_versions_do_not_know_the_field(api, given):
    reply = asked(api, given, "1.45")
    assert reply.status in (400, 406) and "capabilities" in reply.error["detail"] and "1.46" in reply.error["detail"]


@pytest.mark.parametrize(
    ("name", "member", "administrator"),
    [("NET_RAW", 202, 202), ("MKNOD", 202, 202), ("NET_ADMIN", 403, 202), ("SYS_ADMIN", 403, 403)],
)
def test_who_may_have_which(api, admin_api, name, member, administrator):
    assert (asked(api, [name]).status, asked(admin_api, [name]).status) == (member, administrator)


def test_each_capability_has_a_rule_of_its_own(with_rules):
    api = with_rules({"container:create:capability:NET_RAW": "!", "container:create:capability:SYS_ADMIN": "@"})
    assert asked(api, ["CHOWN", "SYS_ADMIN"]).status == 202
    refused = asked(api, ["CHOWN", "NET_RAW"])
    assert refused.status == 403 and "container:create:capability:NET_RAW" in refused.error["detail"]
