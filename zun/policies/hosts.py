# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, rule

RULES = (
    rule("host:get_all", ADMIN, "List the compute hosts.", "GET /v1/hosts"),
    rule("host:get", ADMIN, "Show a compute host.", "GET /v1/hosts/{host}"),
    rule(
        "host:topology",
        ADMIN,
        "See the memory nodes and CPUs of a compute host and which containers hold them, of every project.",
        "GET /v1/hosts/{host}/topology",
    ),
    rule(
        "host:audit",
        ADMIN,
        "See whether the containers of a compute host run where they are planned, and repair those that do not.",
        "POST /v1/hosts/{host}/audit",
    ),
)
