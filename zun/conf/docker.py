# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "docker"

OPTS = [
    cfg.StrOpt(
        "api_url",
        default="unix:///var/run/docker.sock",
        regex=r"^((unix|http\+unix|tcp|https?|ssh):/|[^/]*:\d+$)",
        help="Where the Docker daemon of this host listens: unix:///PATH or tcp://HOST:PORT.",
    ),
    bounded.IntOpt("default_timeout", min=1, default=60, help="Seconds to wait for one answer of the Docker daemon."),
    bounded.IntOpt(
        "execute_timeout",
        min=1,
        default=5,
        help="Seconds an exec with run=true may take before its caller gets a conflict.",
    ),
    bounded.IntOpt(
        "default_memory_swap",
        default=-1,
        min=-1,
        help="Memory plus swap in MiB that a container may use; -1 is unlimited swap.",
    ),
    cfg.StrOpt(
        "default_registry",
        help="Registry (HOST[:PORT]) of images whose name has none and whose container names none. Unset: Docker's.",
    ),
    cfg.StrOpt("default_registry_username", help="User name for default_registry. Unset: pulls there are anonymous."),
    cfg.StrOpt("default_registry_password", secret=True, help="Password for default_registry."),
    cfg.BoolOpt(
        "hard_cpu_limit",
        default=False,
        help="Cap shared containers at their cpu by a CFS quota instead of weighing them by cpu shares. Dedicated "
        "containers never get a quota: it would throttle them on their own cores.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)
