# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "docker"

OPTS = [
    cfg.StrOpt(
        "api_url",
        default="unix:///var/run/docker.sock",
        regex=r"^((unix|http\+unix|tcp|https?|ssh):/|[^/]*:\d+$)",
        help="Address of this host's Docker daemon: unix:///PATH or tcp://HOST:PORT.",
    ),
    bounded.IntOpt("default_timeout", min=1, default=60, help="Seconds to wait for an answer of the Docker daemon."),
    bounded.IntOpt(
        "execute_timeout",
        min=1,
        default=5,
        help="Seconds that a command of execute with run=true may take. After that the request is answered with 409.",
    ),
    bounded.IntOpt(
        "default_memory_swap",
        default=-1,
        min=-1,
        help="Memory plus swap in MiB for a container. -1: no limit on swap.",
    ),
    cfg.StrOpt(
        "default_registry",
        help="Registry, HOST[:PORT], of an image if neither its name nor its container names a registry. Unset: "
        "Docker Hub.",
    ),
    cfg.StrOpt("default_registry_username", help="User name for default_registry. Unset: anonymous pulls."),
    cfg.StrOpt("default_registry_password", secret=True, help="Password for default_registry."),
    cfg.BoolOpt(
        "public_registries",
        default=True,
        help="Pull images from every registry that has only public addresses. If false, pull only from "
        "allowed_registries and default_registry.",
    ),
    cfg.ListOpt(
        "allowed_registries",
        default=[],
        help="Registries from which images may be pulled even if they have loopback, link-local or private addresses: "
        "HOST, HOST:PORT as in image names, or a block of addresses such as 10.1.0.0/16. * allows every registry. "
        "default_registry is always allowed.",
    ),
    cfg.BoolOpt(
        "hard_cpu_limit",
        default=False,
        help="Limit shared containers to their cpu by a CFS quota. If false, cpu is a weight (CPU shares). Dedicated "
        "containers never get a quota, because it would throttle them on their own cores.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)
