# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, rule

_ITEM = "/v1/quota_classes/{name}"

RULES = (
    rule("quota_class:get", ADMIN, "See the limits of a quota class.", f"GET {_ITEM}"),
    rule("quota_class:update", ADMIN, "Change the limits of a quota class.", f"PUT {_ITEM}"),
)
