# SPDX-License-Identifier: Apache-2.0
import re
from typing import Any

from oslo_config import cfg, types

from zun.conf import bounded

GROUP = "docker"

#: The capabilities that Docker gives to a container by default.
_GIVEN = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
_ULIMIT = re.compile(
    r"(core|cpu|data|fsize|locks|memlock|msgqueue|nice|nofile|nproc|rss|rtprio|rttime|sigpending|stack)"
    r"=(-1|[0-9]{1,18})(?::(-1|[0-9]{1,18}))?"
)


class _Ulimit(types.ConfigType):
    """``NAME=SOFT[:HARD]`` as a name and two numbers. Docker would refuse a soft limit above the hard one each time."""

    def __init__(self) -> None:
        super().__init__(type_name="ulimit")

    def __call__(self, value: Any) -> tuple[str, int, int]:
        if isinstance(value, tuple):
            return value
        found = _ULIMIT.fullmatch(value.strip())
        if found is None:
            raise ValueError(f"'{value}' is no limit: write NAME=SOFT:HARD, for example nofile=65536:524288")
        soft, hard = int(found[2]), int(found[3] or found[2])
        if hard != -1 and not 0 <= soft <= hard:
            raise ValueError(f"'{value}' has a soft limit above its hard limit")
        return found[1], soft, hard

    def _formatter(self, value: Any) -> str:
        return str(value)


OPTS = [
    cfg.StrOpt(
        "api_url",
        default="unix:///var/run/docker.sock",
        regex=r"^((unix|http\+unix|tcp|https?|ssh):/|[^/]*:\d+$)",
        help="Address of this host's Docker daemon: unix:///PATH or tcp://HOST:PORT. With ca_file or cert_file, tcp:// "
        "is TLS.",
    ),
    cfg.StrOpt(
        "ca_file",
        help="File (PEM) with the authority that signed the certificate of the Docker daemon at tcp://. Unset, with "
        "cert_file or https://: the authorities of the system.",
    ),
    cfg.StrOpt(
        "cert_file",
        help="Certificate file (PEM) that this service shows to the Docker daemon at tcp://, which wants one if it was "
        "started with --tlsverify. A changed file counts from the next connection on.",
    ),
    cfg.StrOpt("key_file", help="Key file (PEM) of cert_file."),
    bounded.IntOpt("default_timeout", min=1, default=60, help="Seconds to wait for an answer of the Docker daemon."),
    bounded.IntOpt(
        "execute_timeout",
        min=1,
        default=5,
        help="Seconds that a command of execute with run=true may take. After that the request is answered with 409.",
    ),
    bounded.IntOpt(
        "default_memory_swap",
        default=0,
        min=-1,
        help="Memory plus swap in MiB for a container. A container whose memory is larger has no swap, so 0 gives swap "
        "to no container. -1: no limit on swap.",
    ),
    bounded.IntOpt(
        "pids_limit",
        min=0,
        default=4096,
        help="Processes and threads that a container may have at one time. 0: no limit.",
    ),
    cfg.BoolOpt(
        "no_new_privileges",
        default=True,
        help="Let no program of a container gain rights by a setuid bit or a file capability. If false, users of a "
        "container can become its root by programs such as sudo.",
    ),
    cfg.ListOpt(
        "drop_capabilities",
        item_type=types.String(choices=[*_GIVEN, "ALL"]),
        default=["AUDIT_WRITE", "MKNOD", "NET_RAW"],
        help="Capabilities that Docker gives and that a container does not get, for example NET_RAW. ALL: every one. "
        "Empty: containers have all that Docker gives.",
    ),
    cfg.ListOpt(
        "ulimits",
        item_type=_Ulimit(),
        default=[],
        help="Limits of each process of a container, as NAME=SOFT:HARD; -1 is no limit, for example "
        "nofile=65536:524288. Empty: those of the Docker daemon. A daemon without CAP_SYS_RESOURCE, such as a rootless "
        "one, starts no container with a hard limit above its own.",
    ),
    cfg.StrOpt(
        "log_max_size",
        regex=r"^([1-9][0-9]{0,11}[kmg]?)?$",
        default="50m",
        help="Size at which a container's log file is rotated, if Docker's log driver is json-file or local. Empty: "
        "the log-opts of Docker's daemon.json decide.",
    ),
    bounded.IntOpt(
        "log_max_files",
        min=2,
        default=3,
        help="Log files that are kept of a container, the current one included. The oldest is removed. No effect if "
        "log_max_size is empty.",
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
