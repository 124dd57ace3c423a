# SPDX-License-Identifier: Apache-2.0
"""Scheduler hints that mean something here. The API looks up what they name, and the scheduler follows them."""

GROUP = "group"
SAME_HOST = "same_host"
DIFFERENT_HOST = "different_host"

# Scopes of names with a colon in them.
LABEL = "label:"
IMAGE = "image:"
