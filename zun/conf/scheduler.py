# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "scheduler"

OPTS = [
    cfg.ListOpt(
        "enabled_filters",
        default=[
            "RetryFilter",
            "ComputeFilter",
            "AvailabilityZoneFilter",
            "IsolationFilter",
            "AggregateExtraSpecsFilter",
            "TraitsFilter",
            "RuntimeFilter",
            "ImagePropertiesFilter",
            "LabelFilter",
            "SameHostFilter",
            "DifferentHostFilter",
            "GroupAffinityFilter",
            "GroupAntiAffinityFilter",
            "NumInstancesFilter",
            "IoOpsFilter",
            "RamFilter",
            "CPUFilter",
            "DiskFilter",
            "PciPassthroughFilter",
            "CpuSetFilter",
        ],
        help="Filters (entry-point group zun.scheduler.filter) that a host must pass, in this order. Put cheap filters "
        "first and CpuSetFilter last, because it plans the exact placement. RetryFilter and CpuSetFilter are used even "
        "if they are left out.",
    ),
    cfg.ListOpt(
        "weighers",
        default=[
            "FreeCPUWeigher=1.0",
            "FreeRAMWeigher=1.0",
            "SoftAffinityWeigher=1.0",
            "SoftAntiAffinityWeigher=1.0",
            "DeviceWeigher=3.0",
            "FailureWeigher=10.0",
        ],
        help="Weighers (entry-point group zun.scheduler.weigher), each with its multiplier. Hosts are tried in falling "
        "order of the sum of multiplier times normalised weight. A negative multiplier reverses a weigher. The default "
        "spreads containers; DeviceWeigher outweighs free CPUs and memory together, so that hosts with free devices "
        "stay free for containers that ask for them; FailureWeigher outweighs the others together, because a failing "
        "host stays the emptiest. "
        "To pack dedicated containers, so that large ones find room later, add StrandedWeigher=1000000.0 and set "
        "FailureWeigher=10000000.0; StrandedWeigher takes time for each request, and up to 64 MiB of memory.",
    ),
    bounded.IntOpt("max_attempts", default=5, min=1, help="Number of hosts tried for one request before it fails."),
    bounded.IntOpt(
        "alternates", default=2, min=0, help="Number of alternate hosts that are planned and sent with the chosen one."
    ),
    bounded.IntOpt(
        "host_subset_size",
        default=1,
        min=1,
        help="Number of best hosts from which each host is drawn at random; 1 always takes the best. Several "
        "schedulers do not need more, because each has its own share of the hosts.",
    ),
    bounded.IntOpt(
        "max_containers_per_host",
        min=1,
        help="Containers and capsules that NumInstancesFilter lets a host hold. An aggregate may have a lower number "
        "under this name in its metadata. Unset: any number, whatever aggregates have. Nova has the option as "
        "max_instances_per_host.",
    ),
    bounded.IntOpt(
        "max_io_ops_per_host",
        min=1,
        help="Containers and images that IoOpsFilter lets a host make, rebuild, pull or commit at the same time. An "
        "aggregate may have a lower number under this name in its metadata. Unset: any number, whatever aggregates "
        "have. The count is as of the last comparison with the database, with this scheduler's own choices.",
    ),
    bounded.IntOpt(
        "failure_window",
        default=600,
        min=1,
        help="Seconds for which FailureWeigher counts a failure of a host to create or start a container. The weight "
        "of the failure falls with time.",
    ),
    bounded.IntOpt(
        "booking_deadline",
        default=60,
        min=1,
        help="Seconds after which the scheduler drops a booking that the host has neither confirmed nor refused.",
    ),
    cfg.StrOpt(
        "rearrange",
        default="suggest",
        choices=[
            ("never", "No moves are looked for."),
            ("suggest", "The reason of the refusal names the moves that would help, and the command that makes them."),
            ("in-place", "The containers are moved on their host, and the request is tried again."),
        ],
        help="Use of moves for a request that no host can hold because its free CPUs are in pieces: dedicated "
        "containers that may be moved (see move_by_default) go to other CPUs and memory nodes of the same host.",
    ),
    cfg.BoolOpt(
        "move_by_default",
        default=True,
        help="Whether a dedicated container may be moved on its host if its user did not say so in the field movable. "
        "A move stops no process; memory is copied meanwhile, and processes wait for pages that they touch.",
    ),
    bounded.IntOpt(
        "sweep_interval",
        default=30,
        min=1,
        help="Seconds between two searches for lost requests (see lost_after).",
    ),
    bounded.IntOpt(
        "lost_after",
        default=60,
        min=1,
        help="Seconds without progress after which an accepted request without a host counts as lost and is scheduled "
        "again.",
    ),
]
