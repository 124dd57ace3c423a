# SPDX-License-Identifier: Apache-2.0
"""The checks that the default policy is made of, and the way a rule is written."""

from oslo_policy import policy

ADMIN = "rule:context_is_admin"
# Anybody acting inside the project that owns the target. No role is asked for: that is the reference's
# default.
OWNER = "rule:admin_or_owner"
NOBODY = "!"

RULES = (
    policy.RuleDefault("context_is_admin", "role:admin", "An administrator of the cloud."),
    policy.RuleDefault(
        "admin_or_owner",
        "rule:context_is_admin or project_id:%(project_id)s",
        "An administrator, or whoever acts in the project that owns the target.",
    ),
)


def rule(name: str, check: str, description: str, *operations: str) -> policy.DocumentedRuleDefault:
    """A documented rule. ``operations`` are written ``METHOD /path``."""
    return policy.DocumentedRuleDefault(
        name=name,
        check_str=check,
        description=description,
        operations=[
            {"method": method, "path": path} for method, path in (operation.split() for operation in operations)
        ],
        scope_types=["project"],
    )
