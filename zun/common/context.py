# SPDX-License-Identifier: Apache-2.0
"""Who asks. A context travels with every request, over HTTP and over RPC."""

from collections.abc import Mapping
from typing import Any

from oslo_context import context

ADMIN_ROLE = "admin"


class RequestContext(context.RequestContext):
    """oslo.context's identity plus ``is_admin``, which is always derived from the roles."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs["is_admin"] = any(role.lower() == ADMIN_ROLE for role in kwargs.get("roles") or ())
        super().__init__(**kwargs)

    def to_dict(self) -> dict[str, Any]:
        """What travels in a message. The caller's token stays here: no service acts in the caller's name, and whoever
        may read the queue shall not.
        """
        values = dict(super().to_dict())
        del values["auth_token"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **kwargs: Any) -> "RequestContext":
        """The context that ``to_dict`` made ``values`` of; it calls the user's and the project's id by older names."""
        fields = ("roles", "request_id", "global_request_id", "user_name", "project_name")
        kwargs.update({name: values.get(name) for name in fields})
        return cls(user_id=values.get("user"), project_id=values.get("project_id"), **kwargs)


def admin_context(request_id: str | None = None) -> RequestContext:
    """The service acting for itself: sees the rows of every project."""
    return RequestContext(user_id="zun", project_id="zun", roles=[ADMIN_ROLE], request_id=request_id, overwrite=False)
