# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import READER, rule

RULES = (rule("availability_zones:get_all", READER, "List the availability zones.", "GET /v1/availability_zones"),)
