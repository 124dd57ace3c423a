# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "quota"

_OVER = " -1: no limit. The quota class 'default' and a project's own quota go before this."

OPTS = [
    bounded.IntOpt("containers", default=40, min=-1, help="Containers that a project may have." + _OVER),
    bounded.IntOpt(
        "cpu", default=20, min=-1, help="CPUs that all containers of a project may ask for together." + _OVER
    ),
    bounded.IntOpt(
        "memory", default=51200, min=-1, help="MiB that all containers of a project may ask for together." + _OVER
    ),
    bounded.IntOpt(
        "disk", default=100, min=-1, help="GiB that all containers of a project may ask for together." + _OVER
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)
