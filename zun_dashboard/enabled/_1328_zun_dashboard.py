# SPDX-License-Identifier: Apache-2.0
"""The templates and static files of the panels. Horizon fails with an application that two files add."""

FEATURE = True
ADD_INSTALLED_APPS = ["zun_dashboard"]
ADD_XSTATIC_MODULES = [("zun_dashboard.elements", ())]
