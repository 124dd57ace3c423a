# SPDX-License-Identifier: Apache-2.0
"""The checks of the default policy, and the function that builds a rule."""

from oslo_policy import policy

ADMIN = "rule:context_is_admin"
# READER may look at objects of the token's project; MEMBER may also change them.
READER = "rule:project_reader"
MEMBER = "rule:project_member"
NOBODY = "!"

# Keystone adds the roles that a role implies (admin: member, member: reader). The other authentication methods do not,
# so each rule includes the rule above it.
RULES = (
    policy.RuleDefault("context_is_admin", "role:admin", "An administrator of the cloud."),
    policy.RuleDefault(
        "project_member",
        "rule:context_is_admin or (role:member and project_id:%(project_id)s)",
        "A user who may change objects of the token's project.",
    ),
    policy.RuleDefault(
        "project_reader",
        "rule:project_member or (role:reader and project_id:%(project_id)s)",
        "A user who may look at objects of the token's project.",
    ),
)


def rule(name: str, check: str, description: str, *operations: str) -> policy.DocumentedRuleDefault:
    """Return a documented rule. Each of ``operations`` is ``METHOD /path``, for example ``GET /v1/hosts``."""
    return policy.DocumentedRuleDefault(
        name=name,
        check_str=check,
        description=description,
        operations=[
            {"method": method, "path": path} for method, path in (operation.split() for operation in operations)
        ],
        scope_types=["project"],
    )
