# SPDX-License-Identifier: Apache-2.0
"""python-zunclient's list of registries, with its filters beside ``--limit``."""

from zunclient.osc.v1 import registries

from zun.osc import filtered


class ListRegistry(filtered.Whole, registries.ListRegistry):
    """List available registries"""

    noun = "registries"
