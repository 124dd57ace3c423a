# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

GROUP = "audit"

OPTS = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Send CADF notifications: zun-api for each request of an identified caller, zun-wsproxy for each terminal "
        "session. The groups audit_middleware_notifications and oslo_messaging_notifications say where to.",
    ),
    cfg.StrOpt(
        "audit_map_file",
        help="File that maps requests to CADF actions and types, in the form of keystonemiddleware's audit filter. If "
        "it is not set, zun-api uses the map that comes with it.",
    ),
    cfg.StrOpt(
        "ignore_req_list",
        default="",
        help="HTTP methods without notifications, separated by commas. GET leaves out lists and shows, and also reads "
        "of files, logs and terminals.",
    ),
]
