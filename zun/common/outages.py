# SPDX-License-Identifier: Apache-2.0
"""Errors that say that something else is down. Where in our code that was noticed helps nobody."""

from oslo_db import exception as db_exc

from zun.common import exceptions, rpc

OUTAGES = (db_exc.DBConnectionError, exceptions.Unavailable, *rpc.UNDELIVERED)
