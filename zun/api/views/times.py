# SPDX-License-Identifier: Apache-2.0
"""Times as the API writes them: UTC without a zone. Resources and services differ, as in the reference."""

import datetime


def of_resource(value: datetime.datetime | None) -> str | None:
    """Return ``2026-01-31 12:00:00``, with ``.ffffff`` if there is a fraction."""
    return None if value is None else value.replace(tzinfo=None).isoformat(" ")


def of_service(value: datetime.datetime | None) -> str | None:
    """Return ``2026-01-31T12:00:00.000000``."""
    return None if value is None else value.replace(tzinfo=None).isoformat(timespec="microseconds")
