# SPDX-License-Identifier: Apache-2.0
from zun.api.views.quotas import Limits, show

__all__ = ["Limits", "show"]
