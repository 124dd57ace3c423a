# SPDX-License-Identifier: Apache-2.0
"""A container runtime in memory, for tests and measurements."""

from zun.container.fake.driver import DEFAULT_FACTS, Disobedience, InMemoryDriver, Update

__all__ = ["DEFAULT_FACTS", "Disobedience", "InMemoryDriver", "Update"]
