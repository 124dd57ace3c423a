# SPDX-License-Identifier: Apache-2.0
"""The routes of the API as it is without any file, and without services behind it, and their schemas."""

from zun.api import microversion
from zun.api.controllers.v1 import NOUNS, Dependencies
from zun.api.schemas import Schema
from zun.api.schemas.capsules import PLACEMENT
from zun.api.settings import Settings
from zun.tests.fixtures import own_conf

DEPENDENCIES = Dependencies(scheduler_api=None, compute_api=None, settings=Settings.from_conf(own_conf()))
ROUTES = [route for noun in NOUNS for route in noun(DEPENDENCIES).routes()]


def schemas():
    """Every schema by which a request is checked, as the OpenAPI document of a version has it."""
    for version in microversion.EVERY:
        yield PLACEMENT.described(version)
        for route in ROUTES:
            for given in (route.query, route.body, route.arguments):
                schema = given if given is None or isinstance(given, Schema) else given[version]
                if schema is not None:
                    yield schema.described(version)
