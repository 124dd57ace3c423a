# SPDX-License-Identifier: Apache-2.0
from hypothesis import HealthCheck, settings

from zun.tests.fixtures import admin, context, database, empty_tables

__all__ = ["admin", "context", "database", "empty_tables"]

# That the machine was busy refutes no property.
settings.register_profile("zun", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zun")
