# SPDX-License-Identifier: Apache-2.0
"""What a row of the containers' table is."""

from enum import StrEnum


class Kind(StrEnum):
    CONTAINER = "container"
    """One by itself."""
    CAPSULE = "capsule"
    """Several together. Its row holds the claim of all; its object at the runtime keeps their network."""
    MEMBER = "member"
    """One of a capsule. It runs on its part of the capsule's claim, and holds nothing by itself."""
    INIT = "init"
    """One of a capsule that runs to its end before the members start."""
    LEFTOVER = "leftover"
    """A container or capsule that was deleted, and that its host may run all the same. Its project has it no more; it
    holds what it held until the host finds it gone."""
