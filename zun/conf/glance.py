# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded, keystoneauth

GROUP = "glance"

SECONDS = 60  # for one answer, and between two pieces of an image

LIBRARY: list[cfg.Opt] = keystoneauth.options("image", SECONDS, retries=2)

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "images_directory",
        help="Folder of this host for images on their way from and to Glance, and for the times when they were last "
        "used. Unset: images below state_path.",
    ),
    bounded.IntOpt(
        "image_cache_mb",
        default=10240,
        min=0,
        help="MiB of Glance's images that this host keeps in Docker though no container uses them. Beyond that, those "
        "that were used the longest time ago are removed. zun-compute reads this option.",
    ),
    bounded.IntOpt(
        "transfer_timeout",
        default=3600,
        min=1,
        help="Seconds that one download or upload of an image may take.",
    ),
]
