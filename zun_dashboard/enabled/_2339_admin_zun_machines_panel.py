# SPDX-License-Identifier: Apache-2.0
PANEL = "zun_machines"
PANEL_GROUP = "container"
PANEL_DASHBOARD = "admin"
ADD_PANEL = "zun_dashboard.machines.panel.Machines"
