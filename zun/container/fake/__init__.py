# SPDX-License-Identifier: Apache-2.0
"""A container runtime in memory, for tests and measurements."""

from zun.container.fake.driver import InMemoryDriver
from zun.container.fake.facts import DEFAULT_FACTS
from zun.container.fake.kernel import Disobedience
from zun.container.fake.resources import Update

__all__ = ["DEFAULT_FACTS", "Disobedience", "InMemoryDriver", "Update"]
