# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, READER, rule

_DRY_RUN = "POST /v1/placement/dry_run"
_CAPACITY = "POST /v1/placement/capacity"

RULES = (
    rule("placement:dry_run", READER, "Ask where containers would go, without creating them.", _DRY_RUN),
    rule("placement:dry_run:host", ADMIN, "See on which hosts and CPUs they would be.", _DRY_RUN),
    rule("placement:capacity", READER, "Ask how many more containers of a shape the cloud takes.", _CAPACITY),
    rule("placement:capacity:host", ADMIN, "See how many of them each host takes.", _CAPACITY),
)
