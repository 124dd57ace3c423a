# SPDX-License-Identifier: Apache-2.0
"""The group Container, which zun-ui also makes: it may be there twice, and is then shown once."""

from django.utils.translation import gettext_lazy as _

PANEL_GROUP = "container"
PANEL_GROUP_NAME = _("Container")
PANEL_GROUP_DASHBOARD = "admin"
