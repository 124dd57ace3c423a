# SPDX-License-Identifier: Apache-2.0
"""Taking back what was done for something that then fails."""

import contextlib
from collections.abc import Callable, Iterator
from typing import ParamSpec

P = ParamSpec("P")


@contextlib.contextmanager
def on_failure(undo: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> Iterator[None]:
    """Call ``undo`` when the block raises an error, which goes on."""
    try:
        yield
    except Exception:
        undo(*arguments, **named)
        raise
