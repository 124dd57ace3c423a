# SPDX-License-Identifier: Apache-2.0
"""The version of the installed package."""

from importlib import metadata


def release() -> str:
    try:
        return metadata.version("zun")
    except metadata.PackageNotFoundError:  # run from a source tree that was not installed
        return "unknown"
