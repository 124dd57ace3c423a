# SPDX-License-Identifier: Apache-2.0
"""The checks that the default policy is made of, and the way a rule is written."""

from oslo_policy import policy

ADMIN = "rule:context_is_admin"
# Acting inside the project that owns the target, to look or to change.
READER = "rule:project_reader"
MEMBER = "rule:project_member"
NOBODY = "!"

# Keystone gives whoever has a role also the roles that it implies (admin: member, member: reader). The other ways to
# authenticate do not, so each rule names the ones above it.
RULES = (
    policy.RuleDefault("context_is_admin", "role:admin", "An administrator of the cloud."),
    policy.RuleDefault(
        "project_member",
        "rule:context_is_admin or (role:member and project_id:%(project_id)s)",
        "Who may change what the project owns that the token is for.",
    ),
    policy.RuleDefault(
        "project_reader",
        "rule:project_member or (role:reader and project_id:%(project_id)s)",
        "Who may look at what the project owns that the token is for.",
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
