# SPDX-License-Identifier: Apache-2.0
PANEL = "zun_placement"
PANEL_GROUP = "container"
PANEL_DASHBOARD = "project"
ADD_PANEL = "zun_dashboard.placement.panel.Placement"
