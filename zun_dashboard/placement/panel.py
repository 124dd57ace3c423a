# SPDX-License-Identifier: Apache-2.0
"""The containers of a project with their places, and why a request fits or not."""

import horizon
from django.utils.translation import gettext_lazy as _


class Placement(horizon.Panel):
    name = _("Placement")
    slug = "zun_placement"
    permissions = ("openstack.services.container",)
