# SPDX-License-Identifier: Apache-2.0
"""The routes of the API as it is without any file, and without services behind it."""

from zun.api.controllers.v1 import NOUNS, Dependencies
from zun.api.settings import Settings
from zun.tests.fixtures import own_conf

DEPENDENCIES = Dependencies(scheduler_api=None, compute_api=None, settings=Settings.from_conf(own_conf()))
ROUTES = [route for noun in NOUNS for route in noun(DEPENDENCIES).routes()]
