# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, MEMBER, rule

_DRY_RUN = "POST /v1/placement/dry_run"
_CAPACITY = "POST /v1/placement/capacity"

RULES = (
    rule("placement:dry_run", MEMBER, "Plan containers without creating them.", _DRY_RUN),
    rule("placement:dry_run:host", ADMIN, "See the hosts and CPUs in the answer of a dry run.", _DRY_RUN),
    rule("placement:capacity", MEMBER, "Count how many more containers of a shape fit into the cloud.", _CAPACITY),
    rule(
        "placement:defragment",
        ADMIN,
        "Move containers within their host so that a container of a shape fits there, or see the moves.",
        "POST /v1/placement/defragment",
    ),
    rule("placement:capacity:host", ADMIN, "See how many of these containers fit on each host.", _CAPACITY),
)
