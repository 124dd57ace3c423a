# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, MEMBER, READER, rule

_LIST = "/v1/sets"
_ITEM = "/v1/sets/{set}"

RULES = (
    rule("set:get_all", READER, "List the container sets of the user's project.", f"GET {_LIST}"),
    rule("set:get_all_all_projects", ADMIN, "List the container sets of every project.", f"GET {_LIST}"),
    rule("set:get", READER, "Show a container set and its members.", f"GET {_ITEM}"),
    rule("set:start", MEMBER, "Start the members of a container set.", f"POST {_ITEM}/start"),
    rule("set:stop", MEMBER, "Stop the members of a container set.", f"POST {_ITEM}/stop"),
    rule("set:replace", MEMBER, "Replace the lost members of a container set.", f"POST {_ITEM}/replace"),
    rule("set:delete", MEMBER, "Delete a container set and its members.", f"DELETE {_ITEM}"),
    rule("set:delete_all_projects", ADMIN, "Delete a container set of any project.", f"DELETE {_ITEM}"),
)
