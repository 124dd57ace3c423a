# SPDX-License-Identifier: Apache-2.0
"""Amounts as people and programs read them: exact to a millionth, and short.

CPUs are counted in millionths. A sum of floats misses the true sum by far less, so rounding to a millionth gives the
true sum again: ``exact(0.1 + 0.2)`` is 0.3 and is written so.
"""

DIGITS = 6
"""Digits behind the point that an amount may have."""


def exact(amount: float) -> float:
    """Return ``amount`` rounded to a millionth; a whole number stays one."""
    return round(amount, DIGITS)


def cpus(amount: str) -> str:
    """Return an amount of CPUs in words: ``1 CPU``, ``2 CPUs``, ``0.5 CPUs``."""
    return f"{amount} CPU" if amount == "1" else f"{amount} CPUs"


def text(amount: float) -> str:
    """Return ``amount`` in digits, without trailing zeros: ``1.5``, ``3``, ``1048576``, ``0.000001``."""
    if abs(amount) >= 1e15:
        return f"{amount:g}"  # floats this large are not exact, and as digits are long
    return f"{exact(amount) + 0.0:.{DIGITS}f}".rstrip("0").rstrip(".")
