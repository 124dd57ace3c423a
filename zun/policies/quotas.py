# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, READER, rule

_ITEM = "/v1/quotas/{project_id}"

RULES = (
    rule("quota:get", READER, "See the quota of a project, and what it uses.", f"GET {_ITEM}"),
    rule("quota:get_default", READER, "See the quota of a project that has none of its own.", f"GET {_ITEM}/defaults"),
    rule("quota:update", ADMIN, "Change the quota of a project.", f"PUT {_ITEM}"),
    rule("quota:delete", ADMIN, "Give a project the default quota again.", f"DELETE {_ITEM}"),
)
