# SPDX-License-Identifier: Apache-2.0
"""The context of a request: the caller's identity, which travels over HTTP and RPC."""

from collections.abc import Mapping
from typing import Any

from oslo_context import context

ADMIN_ROLE = "admin"
TRAVELLING = ("user", "project_id", "roles", "request_id", "global_request_id", "user_name", "project_name")


class RequestContext(context.RequestContext):
    """oslo.context's identity plus ``is_admin``, which is always derived from the roles."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs["is_admin"] = any(role.lower() == ADMIN_ROLE for role in kwargs.get("roles") or ())
        super().__init__(**kwargs)

    def to_dict(self) -> dict[str, Any]:
        """Return the values without the caller's token: no service acts in the caller's name, and readers of the queue
        must not.
        """
        values = dict(super().to_dict())
        del values["auth_token"]
        return values

    def to_message(self) -> dict[str, Any]:
        """Return the values that ``from_dict`` reads, and no others, because oslo.messaging deep-copies them for every
        message.
        """
        values = self.to_dict()
        return {name: values[name] for name in TRAVELLING if values.get(name) is not None}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **kwargs: Any) -> "RequestContext":
        """Return the context of ``values`` from ``to_dict`` or ``to_message``; they call the user's id ``user``."""
        kwargs.update({name: values.get(name) for name in TRAVELLING if name != "user"})
        return cls(user_id=values.get("user"), **kwargs)


def admin_context(request_id: str | None = None) -> RequestContext:
    """Return the context of a service that acts for itself and sees the rows of every project."""
    return RequestContext(user_id="zun", project_id="zun", roles=[ADMIN_ROLE], request_id=request_id, overwrite=False)
