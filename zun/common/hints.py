# SPDX-License-Identifier: Apache-2.0
"""Names of the scheduler hints that this service knows.

The API looks up the groups and containers that a hint names (``zun.api.controllers.v1.requested``); the scheduler's
filters follow the hint.
"""

GROUP = "group"
SAME_HOST = "same_host"
DIFFERENT_HOST = "different_host"

# Prefixes, as in ``label:disk``.
LABEL = "label:"
IMAGE = "image:"
IMAGE_TRAIT = "image:trait:"
