# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import OWNER, rule

RULES = (rule("availability_zones:get_all", OWNER, "List the availability zones.", "GET /v1/availability_zones"),)
