# SPDX-License-Identifier: Apache-2.0
"""Options of the form KEY=VALUE, one pair each, as ``docker run --env`` takes them.

python-zunclient cuts the value at commas and semicolons if the option is given once.
"""

from collections.abc import Iterable
from typing import Any

from osc_lib import exceptions


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Return the values by key; of a key that is given twice the last. Everything behind the first ``=`` is the value.

    Raises CommandError for a text without ``=`` or without a key.
    """
    return dict(_pair(option, text) for text in texts)


def hints(texts: Iterable[str]) -> dict[str, Any]:
    """Return the values of ``--hint`` by key; a key that is given twice has a list of values.

    The documented form ``a=b,c=d`` is two hints, but a part without ``=`` belongs to the value before it:
    ``image:pci_passthrough:alias=gpu:2,nic:1`` is one.
    """
    found: dict[str, Any] = {}
    for text in texts:
        parts = text.split(",")
        for each in parts if all("=" in part for part in parts) else [text]:
            key, value = _pair("--hint", each)
            found.setdefault(key, []).append(value)
    return {key: values if len(values) > 1 else values[0] for key, values in found.items()}


def _pair(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise exceptions.CommandError(f"{option} must be KEY=VALUE, got {text!r}; repeat the option for further pairs.")
    return key, value
