# SPDX-License-Identifier: Apache-2.0
from zun.tests.fixtures import admin, context, database

__all__ = ["admin", "context", "database"]
