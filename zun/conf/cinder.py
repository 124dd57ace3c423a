# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded, keystoneauth

GROUP = "cinder"

SECONDS = 60  # for one answer: Cinder waits for its backend when it connects and disconnects a volume

LIBRARY: list[cfg.Opt] = keystoneauth.options("block-storage", SECONDS, retries=2)

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Take the volumes that containers mount by id, by name or by size from Cinder. Set it for zun-api and for "
        "each zun-compute that can reach the storage; containers with such volumes run on these hosts only.",
    ),
    cfg.BoolOpt(
        "cross_az_attach",
        default=True,
        help="Let a container mount volumes of every availability zone. If false, it is placed in the zone of its "
        "volumes, and new volumes are made in the zone of the container, as in Nova. zun-api reads this option.",
    ),
    bounded.IntOpt(
        "wait_timeout",
        default=60,
        min=1,
        help="Seconds in which a volume of a starting container must become available. A later container ends in "
        "Error.",
    ),
    cfg.HostAddressOpt(
        "my_ip",
        help="Address of this host in the storage network, which Cinder's backend lets in. Unset: the address of the "
        "interface with the default route.",
    ),
    cfg.BoolOpt(
        "use_multipath",
        default=False,
        help="Connect volumes over every path to their storage. Needs multipathd on this host.",
    ),
    cfg.StrOpt(
        "mount_directory",
        default="/run/zun/volumes",
        help="Folder of this host where volumes are mounted. Choose one that is empty after a boot: then a container "
        "whose volume is not mounted does not start, and cannot write to the host's disk in its place.",
    ),
]  # fmt: skip
