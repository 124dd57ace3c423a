# SPDX-License-Identifier: Apache-2.0
from zun.container.docker.driver import DockerDriver

__all__ = ["DockerDriver"]
