# SPDX-License-Identifier: Apache-2.0
"""The crash table: every action, with every fault at every boundary between two of its outside effects."""
