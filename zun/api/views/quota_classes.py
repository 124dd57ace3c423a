# SPDX-License-Identifier: Apache-2.0
from zun.api.views.quotas import show

__all__ = ["show"]
