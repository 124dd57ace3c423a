# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, OWNER, rule

_LIST = "/v1/groups"
_ITEM = "/v1/groups/{group}"

RULES = (
    rule("group:get_all", OWNER, "List the container groups of the own project.", f"GET {_LIST}"),
    rule("group:get_all_all_projects", ADMIN, "List the container groups of every project.", f"GET {_LIST}"),
    rule("group:get", OWNER, "Show a container group and its members.", f"GET {_ITEM}"),
    rule("group:create", OWNER, "Create a container group.", f"POST {_LIST}"),
    rule("group:delete", OWNER, "Delete a container group.", f"DELETE {_ITEM}"),
)
