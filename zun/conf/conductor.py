# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

GROUP = "conductor"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "accept_restored",
        default=False,
        help="Let hosts add rows of containers that the database has lost, with 'zun-db-manage recover'. Turn it on "
        "for that command only: meanwhile a host that was taken over can add rows to any project.",
    ),
]
