# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack appcontainer volume ...`` for named volumes. The first container that mounts one creates it."""

from zun.osc import resources

COLUMNS = ("uuid", "name", "status", "project_id", "host", "created_at")
LISTED = ("uuid", "name", "status", "project_id", "host")


class DeleteVolume(resources.DeleteEach):
    """Delete named volumes that no container mounts, with all that is in them"""

    noun = "volume"


class ListVolumes(resources.ListAll):
    """List named volumes"""

    noun = "volume"
    listed = LISTED


class ShowVolume(resources.ShowNamed):
    """Show a named volume"""

    noun = "volume"
    columns = COLUMNS
