# SPDX-License-Identifier: Apache-2.0
"""Load filters and weighers by the names of their entry points."""

from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from stevedore import named

from zun.common import exceptions


def load(namespace: str, option: str, names: Sequence[str], conf: cfg.ConfigOpts) -> list[Any]:
    """Return the extensions of these names, in this order, each made with ``conf``.

    Raise Misconfigured if an extension does not exist or cannot be made. Stevedore alone would leave it out silently.
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
