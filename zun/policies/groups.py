# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, MEMBER, READER, rule

_LIST = "/v1/groups"
_ITEM = "/v1/groups/{group}"

RULES = (
    rule("group:get_all", READER, "List the container groups of the user's project.", f"GET {_LIST}"),
    rule("group:get_all_all_projects", ADMIN, "List the container groups of every project.", f"GET {_LIST}"),
    rule("group:get", READER, "Show a container group and its members.", f"GET {_ITEM}"),
    rule("group:create", MEMBER, "Create a container group.", f"POST {_LIST}"),
    rule("group:delete", MEMBER, "Delete a container group.", f"DELETE {_ITEM}"),
)
