# SPDX-License-Identifier: Apache-2.0
from zun.container.podman.driver import PodmanDriver

__all__ = ["PodmanDriver"]
