# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers by the names of their entry points."""

from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from stevedore import named

from zun.common import exceptions


def load(namespace: str, option: str, names: Sequence[str], conf: cfg.ConfigOpts) -> list[Any]:
    """The extensions called ``names``, in that order, made with ``conf``.

    Raises Misconfigured for one that there is not, and one that cannot be made: stevedore by itself leaves both out.
    """
    kind = namespace.replace(".", " ").removeprefix("zun ")

    def failed(_manager: Any, entry_point: Any, exc: BaseException) -> None:
        raise exceptions.Misconfigured(
            f"{kind} {entry_point.name} cannot be loaded: {exc}; see [scheduler] {option}"
        ) from exc

    manager: Any = named.NamedExtensionManager(
        namespace,
        list(names),
        invoke_on_load=True,
        invoke_args=(conf,),
        name_order=True,
        on_load_failure_callback=failed,
    )
    missing = set(names) - set(manager.names())
    if missing:
        named_so = ", ".join(sorted(missing))
        raise exceptions.Misconfigured(f"no such {kind}: {named_so}; see [scheduler] {option}")
    return list(manager)
