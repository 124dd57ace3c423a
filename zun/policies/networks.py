# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, READER, rule

_LIST = "/v1/networks"
_ITEM = f"{_LIST}/{{network}}"
_CREATE = f"POST {_LIST}"

RULES = (
    rule("network:get_all", READER, "List the networks that the user's project may use.", f"GET {_LIST}"),
    rule("network:get_all_all_projects", ADMIN, "List the networks of every project.", f"GET {_LIST}"),
    rule("network:get_one", READER, "Show a network.", f"GET {_ITEM}"),
    rule("network:create", ADMIN, "Create a network.", _CREATE),
    rule("network:create:project", ADMIN, "Create a network for another project.", _CREATE),
    rule(
        "network:create:subnets",
        ADMIN,
        "Choose the subnets of a new network. Hosts no longer reach other machines with addresses in these subnets.",
        _CREATE,
    ),
    rule("network:create:shared", ADMIN, "Create a network that every project may use.", _CREATE),
    rule("network:delete", ADMIN, "Delete a network.", f"DELETE {_ITEM}"),
)
