# SPDX-License-Identifier: Apache-2.0
"""Audits of a compute host, for administrators; the host's answer is a fixed one."""

import pytest

from zun.common import exceptions
from zun.db import services

ANSWER = {"host": "host-1", "findings": [], "containers": {"ok": 2}, "totals": {"audits": 7}}
PATH = "/v1/hosts/host-1/audit"


@pytest.mark.parametrize(
    ("query", "body", "repair"),
    [
        ("", None, False),
        ("", {}, False),
        ("", {"repair": True}, True),
        ("", {"repair": "true"}, True),
        ("", {"repair": False}, False),
        ("?repair=True", None, True),
        ("?repair=false", None, False),
    ],
)
def test_audit(admin_api, compute, host_row, host_up, query, body, repair):
    reply = admin_api.at("1.41").post(PATH + query, body)
    assert (reply.status, reply.json) == (200, ANSWER)
    assert compute.sent == [("audit", "host-1", {"repair": repair})]


def test_by_uuid(admin_api, compute, host_row, host_up):
    assert admin_api.at("1.41").post(f"/v1/hosts/{host_row}/audit").status == 200
    assert compute.sent == [("audit", "host-1", {"repair": False})]


@pytest.mark.parametrize("body", [{"repair": "perhaps"}, {"repair": None}, {"repair": 1}, {"mend": True}])
def test_a_bad_argument_reaches_no_host(admin_api, compute, host_row, host_up, body):
    assert admin_api.at("1.41").post(PATH, body).refusal == (400, "schema-validation-error")
    assert compute.sent == []


def test_a_host_that_is_none(admin_api, host_row, host_up):
    assert admin_api.at("1.41").post("/v1/hosts/nobody/audit").refusal == (404, "compute-node-not-found")


def test_a_host_that_was_never_up_is_not_asked(admin_api, compute, host_row):
    assert admin_api.at("1.41").post(PATH).refusal == (503, "host-unavailable")
    assert compute.sent == []


def test_a_host_that_is_down_is_not_asked(admin_api, compute, host_row, host_up):
    services.update("host-1", "zun-compute", {"forced_down": True})
    assert admin_api.at("1.41").post(PATH).refusal == (503, "host-unavailable")
    assert compute.sent == []


def test_a_host_that_does_not_answer(admin_api, compute, host_row, host_up):
    compute.failure = exceptions.HostUnavailable(host="host-1")
    assert admin_api.at("1.41").post(PATH).refusal == (503, "host-unavailable")


@pytest.mark.parametrize("version", ["1.4", "1.40"])
def test_not_before_its_version(admin_api, host_row, host_up, version):
    assert admin_api.at(version).post(PATH).status == 406


def test_reading_is_not_enough(admin_api, host_row, host_up):
    assert admin_api.at("1.41").get(PATH).status == 404
