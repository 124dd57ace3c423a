# SPDX-License-Identifier: Apache-2.0
"""The database calls of hosts that have no credentials of the database: what a host may ask, and who does it."""
