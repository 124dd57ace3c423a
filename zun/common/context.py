# SPDX-License-Identifier: Apache-2.0
"""Who asks. A context travels with every request, over HTTP and over RPC."""

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
        """What others are told. The caller's token stays here: no service acts in the caller's name, and whoever may
        read the queue shall not.
        """
        values = dict(super().to_dict())
        del values["auth_token"]
        return values

    def to_message(self) -> dict[str, Any]:
        """What travels in a message: of ``to_dict`` only what ``from_dict`` reads, because oslo.messaging makes a deep
        copy of it for every message.
        """
        values = self.to_dict()
        return {name: values[name] for name in TRAVELLING if values.get(name) is not None}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **kwargs: Any) -> "RequestContext":
        """The context that ``to_dict`` or ``to_message`` made ``values`` of; they call the user's id ``user``."""
        kwargs.update({name: values.get(name) for name in TRAVELLING if name != "user"})
        return cls(user_id=values.get("user"), **kwargs)


def admin_context(request_id: str | None = None) -> RequestContext:
    """The service acting for itself: sees the rows of every project."""
    return RequestContext(user_id="zun", project_id="zun", roles=[ADMIN_ROLE], request_id=request_id, overwrite=False)
