# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, MEMBER, READER, rule

_LIST = "/v1/capsules"
_ITEM = "/v1/capsules/{capsule}"

RULES = (
    rule("capsule:create", MEMBER, "Create a capsule.", f"POST {_LIST}"),
    rule("capsule:get_all", READER, "List the capsules of the user's project.", f"GET {_LIST}"),
    rule(
        "capsule:get_all_all_projects",
        ADMIN,
        "List the capsules of every project. Without this permission the answer has only the user's project.",
        f"GET {_LIST}",
    ),
    rule("capsule:get", READER, "Show a capsule and its containers.", f"GET {_ITEM}"),
    rule("capsule:get:host", ADMIN, "See the host of a capsule, and sort by it.", f"GET {_LIST}", f"GET {_ITEM}"),
    rule("capsule:delete", MEMBER, "Delete a capsule and its containers.", f"DELETE {_ITEM}"),
    rule("capsule:delete_all_projects", ADMIN, "Delete a capsule of any project.", f"DELETE {_ITEM}"),
)
