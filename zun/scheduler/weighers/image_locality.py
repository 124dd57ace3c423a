# SPDX-License-Identifier: Apache-2.0
import numpy as np

from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher


class ImageLocalityWeigher(HostWeigher):
    """Prefer hosts that need not pull the image, because a container on the host uses it.

    The weigher knows images from claims only: an image that no container uses any more counts as absent.
    """

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return 1.0 if spec.image is not None and spec.image in host.images else 0.0

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        if spec.image is None:
            return table.nothing
        weights = np.zeros(len(table))
        for hostname in table.with_image(spec.image):
            weights[table.row(hostname)] = 1.0
        return weights
