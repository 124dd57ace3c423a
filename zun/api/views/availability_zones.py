# SPDX-License-Identifier: Apache-2.0
from typing import Any


def show(zone: str) -> dict[str, Any]:
    return {"availability_zone": zone}
