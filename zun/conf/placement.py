# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded, keystoneauth

GROUP = "placement"

SECONDS = 30  # for one answer: Placement may take some seconds when many write to one host

LIBRARY: list[cfg.Opt] = keystoneauth.options("placement", SECONDS)

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "mode",
        default="off",
        choices=[
            ("off", "Placement is not used"),
            ("report", "the resources and claims of this host are written to Placement, behind each change"),
            ("enforce", "as report, and a claim is written before the first process of its container starts: where "
             "Placement has not got what it takes, this host refuses it"),
        ],
        help="What zun-compute does with OpenStack Placement.",
    ),
    bounded.IntOpt(
        "wait",
        default=10,
        min=0,
        help="Seconds for which a claim waits for a Placement that does not answer. Mode enforce only.",
    ),
    cfg.StrOpt(
        "on_unavailable",
        default="fail",
        choices=[
            ("fail", "this host refuses the claim, with Placement in the reason"),
            ("continue", "the container starts, with a warning in the log, and its allocation is written later"),
        ],
        help="What becomes of a claim when Placement did not answer for so long. Mode enforce only.",
    ),
]  # fmt: skip
