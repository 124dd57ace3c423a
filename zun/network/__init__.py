# SPDX-License-Identifier: Apache-2.0
"""Networks of containers, by drivers."""
