# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, MEMBER, READER, rule

_LIST = "/v1/registries"
_ITEM = f"{_LIST}/{{ident}}"

RULES = (
    rule("registry:get_all", READER, "List the registries of the user's project.", f"GET {_LIST}"),
    rule("registry:get_all_all_projects", ADMIN, "List the registries of every project.", f"GET {_LIST}"),
    rule("registry:create", MEMBER, "Add a registry.", f"POST {_LIST}"),
    rule("registry:get_one", READER, "Show a registry without its password.", f"GET {_ITEM}"),
    rule("registry:update", MEMBER, "Change a registry.", f"PATCH {_ITEM}"),
    rule("registry:delete", MEMBER, "Remove a registry.", f"DELETE {_ITEM}"),
)
