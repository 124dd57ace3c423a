# SPDX-License-Identifier: Apache-2.0
"""A Protocol for the questions of the compute service to Placement, and its form in mode off."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zun.common import exceptions
from zun.objects import Container
from zun.placement.allocations import Allocations
from zun.placement.foreign import Others
from zun.topology import Plan


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences between rows and Placement that the last sweep could not remove.

    ``foreign`` are consumers of others on providers of this host, with what they have; ``refused`` are containers
    whose allocations Placement does not take, with the reason.
    """

    foreign: Mapping[str, Allocations] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


class Ledger(Protocol):
    """Where claims are written beside the rows."""

    def claiming(self, container: Container, plan: Plan) -> contextlib.AbstractContextManager[None]:
        """Write ``plan`` before the block commits the claim. Raises ClaimRefused."""

    def claiming_many(
        self, claims: Sequence[tuple[Container, Plan]]
    ) -> contextlib.AbstractContextManager[Mapping[str, exceptions.ClaimRefused]]:
        """Write the plans of several containers before the block commits their claims, if possible in one request.

        Yields the refused claims by the uuid of the container: the block must not commit them.
        """

    def note(self, uuid: str) -> None:
        """Have the allocation of a container compared with its row, which has changed. Returns at once."""

    def look(self) -> None:
        """The host has something else than before. Returns at once."""

    def differences(self) -> Differences:
        """Return the differences between the claims and Placement."""

    def others(self) -> Others | None:
        """Return the amounts of other services on this host as of the last sweep; None before the first one."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class NoLedger:
    """Mode off."""

    def claiming(self, container: Container, plan: Plan) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def claiming_many(
        self, claims: Sequence[tuple[Container, Plan]]
    ) -> contextlib.AbstractContextManager[Mapping[str, exceptions.ClaimRefused]]:
        return contextlib.nullcontext({})

    def note(self, uuid: str) -> None: ...

    def look(self) -> None: ...

    def differences(self) -> Differences:
        return Differences()

    def others(self) -> Others | None:
        return Others()

    def start(self) -> None: ...

    def stop(self) -> None: ...
