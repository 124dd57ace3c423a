# SPDX-License-Identifier: Apache-2.0
"""The entry points of setup.cfg can be loaded by name."""

import importlib.metadata

import pytest

from zun.tests.unit.entry_points import POINTS


@pytest.mark.parametrize("point", [pytest.param(point, id=f"{point.group}:{point.name}") for point in POINTS])
def test_entry_point_loads(point):
    assert callable(point.load())


def test_client_commands_have_the_names_they_replace():
    """A name that python-zunclient does not know would leave its command in place beside ours."""
    stock = {point.name for point in importlib.metadata.entry_points(group="openstack.container.v1")}

    ours = {point.name for point in POINTS if point.group == "openstack.extension"}

    assert ours - stock == {
        "appcontainer_aggregate_add_host",
        "appcontainer_aggregate_create",
        "appcontainer_aggregate_delete",
        "appcontainer_aggregate_list",
        "appcontainer_aggregate_remove_host",
        "appcontainer_aggregate_set",
        "appcontainer_aggregate_show",
        "appcontainer_capsule_create",
        "appcontainer_capsule_delete",
        "appcontainer_capsule_list",
        "appcontainer_capsule_logs",
        "appcontainer_capsule_show",
        "appcontainer_compose_up",
        "appcontainer_explain",
        "appcontainer_host_defragment",
        "appcontainer_host_drain",
        "appcontainer_host_evacuate",
        "appcontainer_group_create",
        "appcontainer_group_delete",
        "appcontainer_group_list",
        "appcontainer_group_show",
        "appcontainer_host_audit",
        "appcontainer_host_topology_show",
        "appcontainer_host_trait_list",
        "appcontainer_host_trait_set",
        "appcontainer_host_undrain",
        "appcontainer_move",
        "appcontainer_network_create",
        "appcontainer_network_delete",
        "appcontainer_network_show",
        "appcontainer_placement_capacity",
        "appcontainer_placement_dry_run",
        "appcontainer_set_delete",
        "appcontainer_set_list",
        "appcontainer_set_replace",
        "appcontainer_set_show",
        "appcontainer_set_start",
        "appcontainer_set_stop",
        "appcontainer_volume_delete",
        "appcontainer_volume_list",
        "appcontainer_volume_show",
        "capsule_logs",
    }
