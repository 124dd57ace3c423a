# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, READER, rule

_LIST = "GET /v1/containers/{ident}/container_actions"
_ITEM = f"{_LIST}/{{request_id}}"

RULES = (
    rule("container:actions", READER, "See what was asked of a container, and what became of it.", _LIST, _ITEM),
    rule("container:action:events", ADMIN, "See the traceback of a step that failed.", _ITEM),
)
