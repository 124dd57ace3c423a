# SPDX-License-Identifier: Apache-2.0
"""``/v1/quota_classes``: named limits. The class ``default`` applies to every project without limits of its own."""

from collections.abc import Sequence

from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.request import Call
from zun.api.routes import Answer, Route
from zun.api.schemas import quotas as schemas
from zun.api.views import quota_classes as views
from zun.common import exceptions
from zun.db import quotas as db

_LONGEST_NAME = 255  # what the column holds


class QuotaClasses:
    def __init__(self, dependencies: Dependencies) -> None:
        self._defaults = dependencies.settings.quota
        self._aliases = dependencies.settings.device_aliases

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "quota_classes/{name}", self.show, returns=views.Limits),
            Route("PUT", "quota_classes/{name}", self.update, arguments=schemas.UPDATE, returns=views.Limits),
        )

    def show(self, call: Call) -> Answer:
        call.access.require("quota_class:get")
        return Answer(views.show(db.class_limits(call.parameters["name"], self._defaults), call.version))

    def update(self, call: Call) -> Answer:
        given = schemas.update(call.arguments, call.version, self._aliases)
        call.access.require("quota_class:update")
        name = call.parameters["name"]
        if len(name) > _LONGEST_NAME:
            raise exceptions.InvalidValue(f"The name of a quota class has at most {_LONGEST_NAME} characters.")
        db.set_class_limits(name, given)
        return Answer(views.show(db.class_limits(name, self._defaults), call.version))
