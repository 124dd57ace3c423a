# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, MEMBER, READER, rule

_LIST = "/v1/volumes"
_ITEM = "/v1/volumes/{volume}"

RULES = (
    rule("volume:get_all", READER, "List the named volumes of the user's project.", f"GET {_LIST}"),
    rule("volume:get_all_all_projects", ADMIN, "List the named volumes of every project.", f"GET {_LIST}"),
    rule("volume:get", READER, "Show a named volume.", f"GET {_ITEM}"),
    rule(
        "volume:get:host",
        ADMIN,
        "See the host of a named volume, and sort by it.",
        f"GET {_LIST}",
        f"GET {_ITEM}",
    ),
    rule("volume:delete", MEMBER, "Delete a named volume and its data.", f"DELETE {_ITEM}"),
)
