# SPDX-License-Identifier: Apache-2.0
"""The least that the rules look at."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    uuid: str
    status: str
