# SPDX-License-Identifier: Apache-2.0
"""Whether a compute host can be asked, so that nobody waits for one that cannot."""

from oslo_utils import timeutils

from zun.common import exceptions
from zun.db import services as db
from zun.objects.service import COMPUTE_BINARY, is_up


def alive(host: str, service_down_time: int) -> bool:
    """Whether the compute service of ``host`` is not known to be down."""
    try:
        service = db.get(host, COMPUTE_BINARY)
    except exceptions.ZunServiceNotFound:
        return False
    return is_up(service, timeutils.utcnow(), service_down_time)


def require(host: str, service_down_time: int) -> None:
    """Raise HostUnavailable when the compute service of ``host`` is known to be down."""
    if not alive(host, service_down_time):
        raise exceptions.HostUnavailable(host=host)
