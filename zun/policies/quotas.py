# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, READER, rule

_ITEM = "/v1/quotas/{project_id}"

RULES = (
    rule("quota:get", READER, "See the quota and the usage of a project.", f"GET {_ITEM}"),
    rule("quota:get_default", READER, "See the default quota of projects.", f"GET {_ITEM}/defaults"),
    rule("quota:update", ADMIN, "Change the quota of a project.", f"PUT {_ITEM}"),
    rule("quota:delete", ADMIN, "Reset the quota of a project to the default.", f"DELETE {_ITEM}"),
)
