# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, rule

RULES = (
    rule("host:get_all", ADMIN, "List the compute hosts.", "GET /v1/hosts"),
    rule("host:get", ADMIN, "Show a compute host.", "GET /v1/hosts/{host}"),
    rule(
        "host:topology",
        ADMIN,
        "See the cells of a compute host, their CPUs and memory, and the containers of every project that hold them.",
        "GET /v1/hosts/{host}/topology",
    ),
    rule(
        "host:audit",
        ADMIN,
        "Audit a compute host: compare where its containers run with their plans, and repair containers that drifted.",
        "POST /v1/hosts/{host}/audit",
    ),
    rule("host:traits", ADMIN, "List the traits of a compute host.", "GET /v1/hosts/{host}/traits"),
    rule("host:set_traits", ADMIN, "Add traits to those of a compute host.", "PUT /v1/hosts/{host}/traits"),
)
