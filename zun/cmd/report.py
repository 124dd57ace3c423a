# SPDX-License-Identifier: Apache-2.0
"""A report of a running program at signal SIGUSR2: its threads with their stacks, and its configuration."""

from oslo_config import cfg
from oslo_reports import guru_meditation_report, opts

from zun import version


class _Version:
    """The version in the form that the library asks for."""

    def vendor_string(self) -> str:
        return "OpenStack"

    def product_string(self) -> str:
        return "zun"

    def version_string_with_package(self) -> str:
        return version.release()


def install(conf: cfg.ConfigOpts, program: str) -> None:
    """Write the report at SIGUSR2: to ``[oslo_reports] log_dir``, by default to standard error.

    Secret options are masked.
    """
    opts.set_defaults(conf)
    guru_meditation_report.TextGuruMeditation.setup_autorun(_Version(), service_name=program, conf=conf)
