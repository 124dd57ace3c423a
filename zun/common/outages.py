# SPDX-License-Identifier: Apache-2.0
"""Errors that say that something else is down. Where in our code that was noticed helps nobody."""

import oslo_messaging
from oslo_db import exception as db_exc

from zun.common import exceptions

OUTAGES = (
    db_exc.DBConnectionError,
    oslo_messaging.MessageDeliveryFailure,
    oslo_messaging.MessagingTimeout,
    exceptions.Unavailable,
)
