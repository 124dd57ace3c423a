# SPDX-License-Identifier: Apache-2.0
"""The machines of the cloud, for administrators."""

import horizon
from django.utils.translation import gettext_lazy as _
from openstack_auth import utils


class Machines(horizon.Panel):
    """The dashboard Admin hides its panels from others, but leaves it to each panel to refuse them."""

    name = _("Machines")
    slug = "zun_machines"
    permissions = ("openstack.services.container", tuple(utils.get_admin_permissions()))
