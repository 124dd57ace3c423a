# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

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
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)
