# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "compute"

OPTS = [
    cfg.StrOpt(
        "container_driver",
        default="docker",
        help="Entry point (group zun.container.driver) of the runtime: docker, or fake for a host in memory.",
    ),
    cfg.StrOpt(
        "cpu_dedicated_set",
        default="",
        help="CPUs that dedicated containers may get, in the kernel's list form with ^ exclusions ('2-15,^8'). Empty: "
        "every CPU that is neither reserved nor in cpu_shared_set.",
    ),
    cfg.StrOpt(
        "cpu_shared_set",
        default="",
        help="CPUs that shared containers run on. Empty: every usable CPU that no dedicated container holds, which "
        "lets both kinds live side by side.",
    ),
    cfg.StrOpt(
        "reserved_host_cpus",
        default="",
        help="CPUs that no container gets, kept for the host and its agents.",
    ),
    bounded.IntOpt(
        "reserved_host_memory_mb",
        default=512,
        min=0,
        help="Memory in MiB that no container gets, kept for the host, spread over its memory nodes by their size.",
    ),
    bounded.FloatOpt(
        "cpu_allocation_ratio",
        default=16.0,
        min=1.0,
        help="CPUs that shared containers may ask for per CPU of the shared pool. Dedicated CPUs are never "
        "over-committed.",
    ),
    bounded.FloatOpt(
        "ram_allocation_ratio",
        default=1.0,
        min=0.1,
        help="Memory that shared containers may ask for per MiB of a memory node. Over 1.0 a node can run out: keep "
        "1.0 where dedicated containers need their memory to be there.",
    ),
    cfg.StrOpt(
        "placement_strategy",
        default="pack",
        choices=[
            ("pack", "the place that is left with least, so that large requests find whole memory nodes and caches"),
            ("spread", "the place that is left with most, so that containers share memory bandwidth and caches less"),
        ],
        help="Which of several places on this host a container gets when they are equally close and need equally few "
        "caches and cores.",
    ),
    bounded.FloatOpt("disk_allocation_ratio", default=1.0, min=0.1, help="Disk that may be promised per GiB of disk."),
    cfg.BoolOpt(
        "enable_cpu_pinning",
        default=True,
        help="Whether this host takes dedicated containers.",
    ),
    cfg.DictOpt("labels", default={}, help="Labels of this host, matched by the scheduler hint 'label:NAME'."),
    cfg.StrOpt("availability_zone", max_length=255, help="Zone of this host. Unset: default_availability_zone."),
    cfg.StrOpt(
        "unique_container_name_scope",
        default="",
        ignore_case=True,
        choices=[
            ("", "nowhere: a name that several containers have can be used to address none of them"),
            ("project", "within a project"),
            ("global", "in the whole cloud"),
        ],
        help="Where the name of a container is there once, whatever its letters' case. Read by zun-api, for new "
        "containers and new names; what is there already stays.",
    ),
    bounded.IntOpt(
        "workers",
        default=32,
        min=1,
        max=bounded.MOST_THREADS,
        help="Container operations that may run at the same time on this host, without stops that may take longer than "
        "10 seconds.",
    ),
    bounded.IntOpt(
        "archive_space_mb",
        default=10240,
        min=1,
        help="Disk in MiB below state_path that archives on their way into and out of this host's containers may take "
        "together. A larger one cannot be copied at once.",
    ),
    bounded.IntOpt("heartbeat_interval", default=10, min=1, help="Seconds between two signs of life of this service."),
    bounded.IntOpt("inventory_interval", default=60, min=1, help="Seconds between two looks at what this host has."),
    bounded.IntOpt(
        "sync_container_state_interval",
        default=60,
        min=1,
        help="Seconds between two comparisons of all containers of this host with the runtime. Single changes arrive "
        "at once through the runtime's event stream; this mends what it missed.",
    ),
    bounded.IntOpt(
        "audit_interval",
        default=60,
        min=0,
        help="Seconds between two audits of where the containers of this host really run. 0: only on demand.",
    ),
    cfg.BoolOpt(
        "audit_repair",
        default=False,
        help="Whether the periodic audit also sets drifted containers to their plan again. Off by default, so that "
        "somebody first sees what changes them; 'openstack appcontainer host audit --repair' does it once.",
    ),
    cfg.StrOpt(
        "audit_host_processes",
        default="placed",
        choices=[
            ("placed", "those that somebody put on a dedicated CPU: their CPUs are not those of the first process"),
            ("all", "every one that may run there: for hosts whose own work is kept off by CPUAffinity"),
            ("none", "no processes, only containers"),
        ],
        help="Which processes outside of containers the audit reports on dedicated CPUs. Threads of the kernel never "
        "are.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)
