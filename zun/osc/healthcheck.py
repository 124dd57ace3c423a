# SPDX-License-Identifier: Apache-2.0
"""Parse ``--healthcheck cmd=...,interval=...,retries=...,timeout=...,start_period=...``, where the command may contain
commas.
"""

import re
from typing import Any

from osc_lib import exceptions

_MEMBERS = ("cmd", "interval", "retries", "timeout", "start_period")
_MEMBER = re.compile(rf",(?=\s*(?:{'|'.join(_MEMBERS)})=)")
_TIME = re.compile(r"([0-9]+)([smh]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def parse(text: str) -> dict[str, Any]:
    """Return the request's member ``healthcheck``, with times in whole seconds. Raises CommandError."""
    found: dict[str, Any] = {}
    for member in _MEMBER.split(text):
        name, separator, value = (part.strip() for part in member.partition("="))
        if not separator or name not in _MEMBERS:
            raise _invalid(text, f"{member!r} is none of {', '.join(f'{each}=' for each in _MEMBERS)}")
        if name in found:
            raise _invalid(text, f"{name} is given twice")
        found[name] = value if name == "cmd" else _number(text, name, value)
    return found


def _number(text: str, name: str, value: str) -> int:
    time = _TIME.fullmatch(value)
    if time is None or (name == "retries" and time[2]):
        wanted = "a whole number" if name == "retries" else "a whole number with s, m, h or no unit (seconds)"
        raise _invalid(text, f"{name} must be {wanted}")
    return int(time[1]) * _SECONDS[time[2]]


def _invalid(text: str, why: str) -> exceptions.CommandError:
    return exceptions.CommandError(f"--healthcheck {text}: {why}")
