# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "metrics"

OPTS: list[cfg.Opt] = [
    cfg.HostAddressOpt(
        "host_ip",
        default="127.0.0.1",
        help="Address on which programs serve their metrics. Everybody who reaches it can read the metrics.",
    ),
    cfg.PortOpt(
        "api_port",
        help="Port of the metrics of zun-api and of zun-allinone. Unset: they serve none. The workers of gunicorn or "
        "uWSGI share the port and answer for all of them, if PROMETHEUS_MULTIPROC_DIR in their environment names an "
        "empty folder.",
    ),
    cfg.PortOpt("scheduler_port", help="Port of the metrics of zun-scheduler. Unset: it serves none."),
    cfg.PortOpt("compute_port", help="Port of the metrics of zun-compute. Unset: it serves none."),
    cfg.PortOpt("conductor_port", help="Port of the metrics of zun-conductor. Unset: it serves none."),
    cfg.PortOpt("wsproxy_port", help="Port of the metrics of zun-wsproxy. Unset: it serves none."),
    cfg.ListOpt(
        "weight_setting",
        default=[],
        help="Labels of hosts with a number that MetricsWeigher weighs, each with its ratio: NAME=RATIO, for example "
        "rating=1.0,price=-2.0. The weight of a host is the sum of ratio times number. Schedulers read this option.",
    ),
    bounded.FloatOpt(
        "weight_of_unavailable",
        default=-10000.0,
        min=-bounded.LARGEST,
        help="Weight for MetricsWeigher of a host that lacks one of the labels of weight_setting, or has no number in "
        "it. Schedulers read this option.",
    ),
]
