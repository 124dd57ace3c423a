# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

GROUP = "capsule"

OPTS = [
    cfg.StrOpt(
        "sandbox_image",
        default="kubernetes/pause",
        help="Image of the sandbox container, which holds the network of a capsule. Its command must not end.",
    ),
    cfg.ListOpt(
        "sandbox_command",
        default=[],
        help="Command of the sandbox container, words separated by commas. Empty: the command of the image. Example "
        "for busybox: sleep,infinity",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)
