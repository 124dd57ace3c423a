# SPDX-License-Identifier: Apache-2.0
"""``/v1/quotas``: the limit of a project for each resource."""

from collections.abc import Sequence

from zun.api import errors
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import Answer, Route
from zun.api.schemas import Field, Schema
from zun.api.schemas import quotas as schemas
from zun.api.views import quotas as views
from zun.db import quotas as db

_USAGES = Schema({"usages": Field({"type": "string", "maxLength": 255})})
_LONGEST_ID = 255  # what the column holds


class Quotas:
    def __init__(self, dependencies: Dependencies) -> None:
        self._defaults = dependencies.settings.quota
        self._aliases = dependencies.settings.device_aliases

    def routes(self) -> Sequence[Route]:
        item = "quotas/{project_id}"
        return (
            Route("GET", item, self.show, query=_USAGES, returns=views.LimitsAndUse),
            Route("PUT", item, self.update, arguments=schemas.UPDATE, returns=views.Limits),
            Route("DELETE", item, self.delete, returns=None),
            Route("GET", f"{item}/defaults", self.defaults, returns=views.Limits),
        )

    def show(self, call: Call) -> Answer:
        """Show the limits, with usage for any text of ``usages``, even ``False``: the reference does so, and clients
        send ``True``.
        """
        project = self._project(call, "quota:get")
        limits = db.limits(project, self._defaults)
        usage = db.usage(project, views.shown(call.version, limits)) if call.query.get("usages") else None
        return Answer(views.show(limits, call.version, usage))

    def defaults(self, call: Call) -> Answer:
        self._project(call, "quota:get_default")
        return Answer(views.show(db.default_limits(self._defaults), call.version))

    def update(self, call: Call) -> Answer:
        given = schemas.update(call.arguments, call.version, self._aliases)
        project = self._project(call, "quota:update")
        db.set_limits(project, given)
        return Answer(views.show(db.limits(project, self._defaults), call.version))

    def delete(self, call: Call) -> Answer:
        db.reset(self._project(call, "quota:delete"))
        return Answer()

    def _project(self, call: Call, rule: str) -> str:
        """Return the project of the path if ``rule`` allows it. Keystone is not asked whether the project exists."""
        project = call.parameters["project_id"]
        if project == "defaults" or len(project) > _LONGEST_ID:  # /v1/quotas/defaults lacks the project
            raise errors.PathNotFound()
        call.access.require(rule, {"project_id": project, "user_id": None})
        return project
