# SPDX-License-Identifier: Apache-2.0
"""Limits under a name, for administrators. What they do to projects is in test_quotas."""

import pytest

DEFAULTS = {"containers": 40, "memory": 51200, "cpu": 20, "disk": 100}


def test_a_class_is_made_by_writing_it(admin_api):
    assert admin_api.get("/v1/quota_classes/gold").json == DEFAULTS
    assert admin_api.put("/v1/quota_classes/gold", {"cpu": "64", "disk": -1}).json == {
        **DEFAULTS,
        "cpu": 64,
        "disk": -1,
    }
    assert admin_api.get("/v1/quota_classes/gold/").json == {**DEFAULTS, "cpu": 64, "disk": -1}
    assert admin_api.put("/v1/quota_classes/gold?cpu=32").json["cpu"] == 32
    assert admin_api.get("/v1/quota_classes/silver").json == DEFAULTS


def test_a_name_that_is_too_long(admin_api):
    assert admin_api.put(f"/v1/quota_classes/{'x' * 256}", {"cpu": 1}).refusal == (400, "invalid-value")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/quota_classes", 404),
        ("DELETE", "/v1/quota_classes/gold", 405),
        ("POST", "/v1/quota_classes/gold", 405),
    ],
)
def test_what_there_is_not(admin_api, method, path, status):
    assert admin_api.send(method, path, {}).status == status
