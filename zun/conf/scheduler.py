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
            "RuntimeFilter",
            "ImagePropertiesFilter",
            "LabelFilter",
            "SameHostFilter",
            "DifferentHostFilter",
            "GroupAffinityFilter",
            "GroupAntiAffinityFilter",
            "RamFilter",
            "CPUFilter",
            "DiskFilter",
            "PciPassthroughFilter",
            "CpuSetFilter",
        ],
        help="Filters (entry-point group zun.scheduler.filter) that a host must pass, in this order. Cheap ones first; "
        "CpuSetFilter belongs last, since it plans the exact placement.",
    ),
    cfg.ListOpt(
        "weighers",
        default=[
            "FreeCPUWeigher=1.0",
            "FreeRAMWeigher=1.0",
            "SoftAffinityWeigher=1.0",
            "SoftAntiAffinityWeigher=1.0",
            "FailureWeigher=10.0",
        ],
        help="Weighers (entry-point group zun.scheduler.weigher), each with its multiplier. Hosts are tried in falling "
        "order of the sum of multiplier times normalised weight. A negative multiplier turns a weigher round. The "
        "default spreads; FailureWeigher outweighs the others together, since a host that fails stays the emptiest. "
        "StrandedWeigher=1000000.0 in front of it packs dedicated containers, so that large ones find room later; it "
        "takes time on each host, and FailureWeigher=10000000.0 then still outweighs it.",
    ),
    bounded.IntOpt("max_attempts", default=5, min=1, help="Hosts that are tried for one request before it fails."),
    bounded.IntOpt("alternates", default=2, min=0, help="Further hosts that are planned and sent along with a choice."),
    bounded.IntOpt(
        "host_subset_size",
        default=1,
        min=1,
        help="Each host is drawn among the best so many; 1 always takes the best. Several schedulers do not need it, "
        "since each keeps a share of the hosts.",
    ),
    bounded.IntOpt(
        "failure_window",
        default=600,
        min=1,
        help="Seconds for which FailureWeigher remembers that a host could not make or start a container, less and "
        "less as they pass.",
    ),
    bounded.IntOpt(
        "booking_deadline",
        default=60,
        min=1,
        help="Seconds after which the scheduler forgets a choice that the host has neither confirmed nor refused.",
    ),
    bounded.IntOpt(
        "sweep_interval",
        default=30,
        min=1,
        help="Seconds between two searches for accepted requests that no host works on.",
    ),
    bounded.IntOpt(
        "lost_after",
        default=60,
        min=1,
        help="Seconds without progress after which an accepted request that has no host counts as lost and is "
        "scheduled again.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)
