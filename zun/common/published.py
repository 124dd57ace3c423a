# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any


def published_ports(exposed: Mapping[str, Any] | None) -> dict[str, Any]:
    """Exposed port -> where on its host it is reached, of those ``exposed_ports`` that are published.

    What somebody wrote there by hand is passed over: the rows of others are looked at together with it.
    """
    return {
        port: where
        for port, where in (exposed or {}).items()
        if isinstance(where, dict) and isinstance(number := where.get("host_port"), int) and number
    }
