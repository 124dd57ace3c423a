# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

GROUP = "upgrade_levels"

OPTS = [
    cfg.StrOpt(
        "compute",
        help="Release, for example 1.0, that the oldest zun-compute runs. Messages to zun-compute are then sent as "
        "that release reads them, and a request that the release cannot serve is answered 503 at once. Set it on the "
        "other services during an upgrade, and remove it after the last host. Without it each request is sent in the "
        "present form, which the release before understands as far as it can.",
    ),
    cfg.StrOpt("scheduler", help="The same for the oldest zun-scheduler."),
]
