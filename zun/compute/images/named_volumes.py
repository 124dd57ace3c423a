# SPDX-License-Identifier: Apache-2.0
"""Remove the volumes of this host that projects have deleted."""

import logging

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.container.driver.volumes import Volumes
from zun.objects import Volume
from zun.volume.runtime import volume_name

LOG = logging.getLogger(__name__)


class NamedVolumes:
    def __init__(self, hostname: str, runtime: Volumes) -> None:
        self._hostname = hostname
        self._runtime = runtime

    def remove(self, context: RequestContext, *_about: str) -> None:
        """Remove every volume that is to be deleted here, each with its row once it is gone.

        What cannot be removed stays Deleting until the next comparison with the runtime, as does what no message told
        of.
        """
        for volume in Volume.list_to_delete(context, self._hostname):
            try:
                self._runtime.remove_volume(volume_name(volume.project_id, volume.name))
            except exceptions.ZunError as exc:
                LOG.warning("Volume %s (%s) could not be removed: %s", volume.uuid, volume.name, exc)
                continue
            volume.destroy()
            LOG.info("Volume %s (%s) is removed", volume.uuid, volume.name)
