# SPDX-License-Identifier: Apache-2.0
"""The machines of the cloud, for administrators."""

import horizon
from django.utils.translation import gettext_lazy as _


class Machines(horizon.Panel):
    name = _("Machines")
    slug = "zun_machines"
    permissions = ("openstack.services.container",)
