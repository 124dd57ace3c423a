# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, rule

_LIST = "/v1/aggregates"
_ITEM = "/v1/aggregates/{aggregate}"

RULES = (
    rule("aggregate:get_all", ADMIN, "List the host aggregates.", f"GET {_LIST}"),
    rule("aggregate:get", ADMIN, "Show a host aggregate.", f"GET {_ITEM}"),
    rule("aggregate:create", ADMIN, "Create a host aggregate.", f"POST {_LIST}"),
    rule("aggregate:update", ADMIN, "Change the name or the zone of a host aggregate.", f"PATCH {_ITEM}"),
    rule("aggregate:delete", ADMIN, "Delete a host aggregate.", f"DELETE {_ITEM}"),
    rule("aggregate:add_host", ADMIN, "Add a host to an aggregate.", f"POST {_ITEM}/add_host"),
    rule("aggregate:remove_host", ADMIN, "Remove a host from an aggregate.", f"POST {_ITEM}/remove_host"),
    rule("aggregate:set_metadata", ADMIN, "Change the metadata of a host aggregate.", f"POST {_ITEM}/set_metadata"),
)
