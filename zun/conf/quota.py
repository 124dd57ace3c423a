# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "quota"

_OVER = " -1: no limit. The quota class 'default' and the quota of a project override this option."

OPTS = [
    bounded.IntOpt(
        "containers", default=40, min=-1, help="Number of containers of a project, including capsule members." + _OVER
    ),
    bounded.IntOpt(
        "cpu",
        default=20,
        min=-1,
        help="Sum of the CPUs of all containers of a project, including CPUs withheld for isolation." + _OVER,
    ),
    bounded.IntOpt(
        "memory", default=51200, min=-1, help="Sum in MiB of the memory of all containers of a project." + _OVER
    ),
    bounded.IntOpt("disk", default=100, min=-1, help="Sum in GiB of the disk of all containers of a project." + _OVER),
    bounded.IntOpt("ports", default=200, min=-1, help="Number of exposed ports of a project's containers." + _OVER),
    bounded.IntOpt("images", default=20, min=-1, help="Number of committed images of a project." + _OVER),
    bounded.IntOpt("groups", default=40, min=-1, help="Number of container groups of a project." + _OVER),
    bounded.IntOpt("networks", default=10, min=-1, help="Number of networks of a project." + _OVER),
    bounded.IntOpt(
        "volumes",
        default=40,
        min=-1,
        help="Number of named volumes of a project. Their size has no limit, because the runtime cannot limit it."
        + _OVER,
    ),
    bounded.IntOpt("registries", default=20, min=-1, help="Number of registries of a project." + _OVER),
    cfg.DictOpt(
        "devices",
        default={},
        help="Number of devices of a project by alias or resource class, for example gpu:4,CUSTOM_NIC:2. A name that "
        "is left out has no limit." + _OVER,
    ),
    bounded.IntOpt(
        "terminals",
        default=40,
        min=-1,
        help="Number of valid terminal addresses of a project (attach, interactive exec). zun-compute reads this "
        "option; only zun-api reads the other quotas." + _OVER,
    ),
]
