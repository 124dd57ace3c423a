# SPDX-License-Identifier: Apache-2.0
"""Errors that mean that another program is down. Their tracebacks help nobody."""

import kombu.exceptions
import oslo_messaging
from oslo_db import exception as db_exc

from zun.common import exceptions

UNDELIVERED = (
    oslo_messaging.MessagingTimeout,
    oslo_messaging.MessageDeliveryFailure,
    kombu.exceptions.OperationalError,  # as the library lets it through when it makes a new connection
)

OUTAGES = (db_exc.DBConnectionError, exceptions.Unavailable, *UNDELIVERED)
