# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "compute"

OPTS = [
    cfg.StrOpt(
        "container_driver",
        default="docker",
        help="Entry point (group zun.container.driver) of the container runtime: docker, podman, or fake for a "
        "runtime in memory.",
    ),
    cfg.StrOpt(
        "database",
        default="direct",
        choices=[
            ("direct", "with the credentials of [database] connection"),
            ("conductor", "through zun-conductor, which lets this host reach its own rows only; needs RabbitMQ"),
        ],
        help="Way of zun-compute and zun-wsproxy to the database. In a cloud use conductor: then a host that is taken "
        "over has no credentials of the database.",
    ),
    cfg.StrOpt(
        "cpu_dedicated_set",
        default="",
        help="CPUs for dedicated containers, in the kernel's list form with ^ exclusions: '2-15,^8' is 2 to 15 without "
        "8. Empty: every CPU that is neither reserved nor in cpu_shared_set.",
    ),
    cfg.StrOpt(
        "cpu_shared_set",
        default="",
        help="CPUs of the shared pool, in the form of cpu_dedicated_set. Empty: every usable CPU that no dedicated "
        "container holds, so that dedicated and shared containers can use one host.",
    ),
    cfg.StrOpt(
        "reserved_host_cpus",
        default="",
        help="CPUs reserved for the host and its agents, in the form of cpu_dedicated_set. No container gets them.",
    ),
    bounded.IntOpt(
        "reserved_host_memory_mb",
        default=512,
        min=0,
        help="Memory in MiB reserved for the host, divided over its cells in proportion to their size. No container "
        "gets it.",
    ),
    cfg.MultiStrOpt(
        "reserved_huge_pages",
        default=[],
        help="Huge pages that no container gets, because programs of the host use them, in the form of Nova's option: "
        "node, size and count, one line for each size of a node. Example: node:0,size:1GB,count:2. A size without a "
        "unit is KiB.",
    ),
    bounded.IntOpt(
        "huge_page_base_memory",
        default=256,
        min=6,
        help="Limit in MiB of the ordinary memory of a container whose memory is in huge pages, for its code, stacks "
        "and small allocations. It is not part of the container's memory and not counted: add it to "
        "reserved_host_memory_mb once for each such container that the host shall run. 6 is the least that Docker "
        "accepts.",
    ),
    bounded.RatioOpt(
        "cpu_allocation_ratio",
        default=16.0,
        min=1.0,
        help="Sum of the cpu of shared containers per CPU of the shared pool. Dedicated CPUs are never overcommitted.",
    ),
    bounded.RatioOpt(
        "ram_allocation_ratio",
        default=1.0,
        min=0.1,
        help="Sum in MiB of the memory of shared containers per MiB of a cell. Above 1.0 a cell can run out of memory; "
        "keep 1.0 on hosts with dedicated containers.",
    ),
    cfg.StrOpt(
        "placement_strategy",
        default="pack",
        choices=[
            ("pack", "the place with the least left over, so that large requests find whole cells and caches"),
            ("spread", "the place with the most left over, so that containers share less memory bandwidth and cache"),
        ],
        help="Choice between places on this host that are equally close and touch equally few caches and cores.",
    ),
    bounded.RatioOpt(
        "disk_allocation_ratio", default=1.0, min=0.1, help="Sum in GiB of the disk of containers per GiB of the host."
    ),
    cfg.BoolOpt(
        "enable_cpu_pinning",
        default=True,
        help="Accept dedicated containers on this host.",
    ),
    cfg.DictOpt(
        "labels",
        default={},
        help="Labels of this host, as NAME:VALUE,NAME:VALUE. The scheduler hint 'label:NAME' matches them.",
    ),
    cfg.StrOpt(
        "availability_zone",
        max_length=255,
        help="Availability zone of this host. Unset: default_availability_zone.",
    ),
    cfg.ListOpt(
        "traits",
        default=[],
        help="Traits of this host beside those of its CPUs, which the agent finds: names of os-traits, or names of "
        "your own such as CUSTOM_HALL_2. Containers ask for them with required_traits.",
    ),
    cfg.StrOpt(
        "unique_container_name_scope",
        default="",
        ignore_case=True,
        choices=[
            ("", "nowhere; containers that share a name can only be addressed by uuid"),
            ("project", "within a project"),
            ("global", "in the whole cloud"),
        ],
        help="Scope in which container names must be unique; upper and lower case count as equal. zun-api checks new "
        "containers and new names; existing names stay.",
    ),
    cfg.StrOpt(
        "interrupts",
        default="away",
        choices=[
            ("away", "dedicated and mixed containers have none on their CPUs unless they ask for others"),
            ("any", "only containers that ask for it (interrupts: away or own) have none"),
            ("fixed", "interrupts are never moved, and containers that ask for it are not for this host"),
        ],
        help="Device interrupts, and kernel workers that belong to no CPU, on the CPUs of dedicated and mixed "
        "containers. The host's own settings come back when the container is deleted.",
    ),
    cfg.MultiStrOpt(
        "power_profiles",
        default=[],
        help="Clock and sleep states that containers with CPUs of their own may ask for by name, one line for each "
        "profile: name, and some of governor, min_mhz, energy_preference and deepest_state. Example: "
        "name:low-latency,governor:performance,deepest_state:C1. The files below /sys/devices/system/cpu say what a "
        "machine has.",
    ),
    bounded.IntOpt(
        "workers",
        default=32,
        min=1,
        max=bounded.MOST_THREADS,
        help="Largest number of container operations that run at the same time on this host. Stops with a timeout "
        "above 10 seconds do not count.",
    ),
    bounded.IntOpt(
        "archive_space_mb",
        default=10240,
        min=1,
        help="Disk in MiB below state_path for all archives that are being copied into or out of this host's "
        "containers. A larger archive cannot be copied.",
    ),
    bounded.IntOpt(
        "move_layer_mb",
        default=4,
        min=0,
        max=16,
        help="MiB that a container may have written into its own file system for a move to another host without "
        "--discard-layer. It moves along through the database.",
    ),
    bounded.IntOpt(
        "heartbeat_interval",
        default=10,
        min=1,
        help="Seconds between two heartbeats of zun-compute, and of zun-scheduler and zun-wsproxy.",
    ),
    bounded.IntOpt(
        "inventory_interval", default=60, min=1, help="Seconds between two discoveries of this host's CPUs and memory."
    ),
    bounded.IntOpt(
        "sync_container_state_interval",
        default=60,
        min=1,
        help="Seconds between two comparisons of all containers of this host with the runtime. Single changes arrive "
        "at once through the runtime's event stream; the comparison finds changes that the stream missed.",
    ),
    bounded.IntOpt(
        "audit_interval",
        default=60,
        min=0,
        help="Seconds between two audits, which compare where the containers of this host run with their plans. 0: "
        "only on demand.",
    ),
    cfg.BoolOpt(
        "audit_repair",
        default=False,
        help="Let the periodic audit also repair containers that drifted from their plan. Off by default, so that an "
        "operator first finds the cause; 'openstack appcontainer host audit --repair' repairs once.",
    ),
    cfg.StrOpt(
        "audit_host_processes",
        default="placed",
        choices=[
            ("placed", "processes whose CPU affinity differs from that of process 1 and includes a dedicated CPU"),
            ("all", "every process that may run on a dedicated CPU: for hosts that set CPUAffinity for their own work"),
            ("none", "no processes, only containers"),
        ],
        help="Processes outside of containers that the audit reports on dedicated CPUs. Kernel threads are never "
        "reported.",
    ),
]
