# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, MEMBER, READER, rule

_LIST = "GET /v1/containers/{ident}/container_actions"
_ITEM = f"{_LIST}/{{request_id}}"

RULES = (
    rule("container:actions", READER, "See the actions on a container and their results.", _LIST, _ITEM),
    rule("container:action:client_address", MEMBER, "See the client address of an action.", _LIST, _ITEM),
    rule("container:action:events", ADMIN, "See the traceback of a failed step.", _ITEM),
)
