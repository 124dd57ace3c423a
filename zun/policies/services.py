# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, rule

RULES = (
    rule("zun-service:get_all", ADMIN, "List the services.", "GET /v1/services"),
    rule("zun-service:enable", ADMIN, "Let the host of a service take new containers.", "PUT /v1/services/enable"),
    rule("zun-service:disable", ADMIN, "Keep new containers from the host.", "PUT /v1/services/disable"),
    rule("zun-service:force_down", ADMIN, "Declare a service down.", "PUT /v1/services/force_down"),
    rule("zun-service:delete", ADMIN, "Delete a service from the list of services.", "DELETE /v1/services"),
)
