# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

GROUP = "podman"

OPTS = [
    cfg.StrOpt(
        "api_url",
        default="unix:///run/podman/podman.sock",
        regex=r"^(http\+)?unix:///.",
        help="Address of the socket of this host's Podman, which runs as root: unix:///PATH. It counts if [compute] "
        "container_driver is podman. All other options of containers are in [docker].",
    ),
]
