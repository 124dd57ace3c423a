# SPDX-License-Identifier: Apache-2.0
"""Who may do what by default. One file a noun, named like the noun's controller, schema and view."""

from oslo_policy import policy

from zun.policies import (
    aggregates,
    availability_zones,
    capsules,
    container_actions,
    containers,
    groups,
    hosts,
    images,
    networks,
    placement,
    quota_classes,
    quotas,
    registries,
    roles,
    services,
)

NOUNS = (
    roles,
    containers,
    container_actions,
    capsules,
    groups,
    images,
    networks,
    hosts,
    aggregates,
    services,
    availability_zones,
    placement,
    quotas,
    quota_classes,
    registries,
)


def list_rules() -> list[policy.RuleDefault]:
    """Every rule, for the enforcer and for oslo.policy's generators."""
    return [rule for noun in NOUNS for rule in noun.RULES]
