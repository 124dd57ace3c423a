# SPDX-License-Identifier: Apache-2.0
"""Programs of systemd and logrotate, which read the files that are shipped for them."""

import os
import shutil

import pytest


def program(name: str) -> str:
    """Return the path of a program. Skip the test without it, or fail where ZUN_REQUIRE_SYSTEMD is 1."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if path is None:
        assert os.environ.get("ZUN_REQUIRE_SYSTEMD") != "1", f"{name} is not installed"
        pytest.skip(f"{name} is not installed")
    return path
