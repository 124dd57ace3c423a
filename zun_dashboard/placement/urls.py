# SPDX-License-Identifier: Apache-2.0
from django.utils.translation import gettext_lazy as _

from zun_dashboard import views

urlpatterns = views.urls(_("Placement"), "placement")
