# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

GROUP = "capsule"

OPTS = [
    cfg.StrOpt(
        "sandbox_image",
        default="kubernetes/pause",
        help="Image of the container that keeps the network of a capsule. It does nothing and must not end.",
    ),
    cfg.ListOpt(
        "sandbox_command",
        default=[],
        help="Its command, word by word. Empty: the image's own. With busybox, for example: sleep,infinity",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)
