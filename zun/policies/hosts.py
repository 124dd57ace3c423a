# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, rule

RULES = (
    rule("host:get_all", ADMIN, "List the compute hosts.", "GET /v1/hosts"),
    rule("host:get", ADMIN, "Show a compute host.", "GET /v1/hosts/{host}"),
    rule(
        "host:topology",
        ADMIN,
        "See the cells of a compute host, their CPUs and memory, and which are held by the containers of the user's "
        "project and which by others.",
        "GET /v1/hosts/{host}/topology",
    ),
    rule(
        "host:topology:holders",
        ADMIN,
        "See which containers of other projects hold the CPUs and memory of a compute host. Without this permission "
        "the answer does not name them.",
        "GET /v1/hosts/{host}/topology",
    ),
    rule(
        "host:audit",
        ADMIN,
        "Audit a compute host: compare where its containers run with their plans, and repair containers that drifted.",
        "POST /v1/hosts/{host}/audit",
    ),
    rule(
        "host:evacuate",
        ADMIN,
        "Have the containers of a compute host that is down placed on other hosts.",
        "POST /v1/hosts/{host}/evacuate",
    ),
    rule(
        "host:drain",
        ADMIN,
        "Move the containers of a compute host to other hosts, see how far that is, and let the host get containers "
        "again.",
        "POST /v1/hosts/{host}/drain",
        "GET /v1/hosts/{host}/drain",
        "DELETE /v1/hosts/{host}/drain",
    ),
    rule("host:traits", ADMIN, "List the traits of a compute host.", "GET /v1/hosts/{host}/traits"),
    rule("host:set_traits", ADMIN, "Add traits to those of a compute host.", "PUT /v1/hosts/{host}/traits"),
)
