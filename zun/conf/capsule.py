# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

GROUP = "capsule"

OPTS = [
    cfg.StrOpt(
        "sandbox_image",
        default="registry.k8s.io/pause@sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a",
        help="Image of the sandbox container, which holds the network of a capsule. Its command must not end. The "
        "default is pause 3.10 of Kubernetes by its digest, so that nobody can change what runs.",
    ),
    cfg.ListOpt(
        "sandbox_command",
        default=[],
        help="Command of the sandbox container, words separated by commas. Empty: the command of the image. Example "
        "for busybox: sleep,infinity",
    ),
]
