# SPDX-License-Identifier: Apache-2.0
"""What containers mount: drivers behind one Protocol, and the place where a host keeps their data."""
