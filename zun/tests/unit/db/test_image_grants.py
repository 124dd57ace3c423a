# SPDX-License-Identifier: Apache-2.0
import datetime

import pytest
from oslo_utils import timeutils

from zun.db import image_grants

pytestmark = pytest.mark.usefixtures("database")

A, B = (f"{'r' * 255}@sha256:{digit * 64}" for digit in "ab")
SECOND = datetime.timedelta(seconds=1)


def test_who_has_shown_credentials():
    image_grants.grant("h1", A, "one")
    image_grants.grant("h1", A, "one")
    image_grants.grant("h1", A, "two")
    image_grants.grant("h1", B, "three")
    assert image_grants.projects("h1", [A]) == {"one", "two"}
    assert image_grants.projects("h1", [A, B]) == {"one", "two", "three"}
    assert image_grants.projects("h2", [A]) == image_grants.projects("h1", [A.upper()]) == set()
    image_grants.remove("h1", [A])
    assert (image_grants.projects("h1", [A]), image_grants.projects("h1", [B])) == (set(), {"three"})


def test_what_was_shown_again_is_kept():
    image_grants.grant("h1", A, "one")
    image_grants.grant("h1", B, "one")
    between = timeutils.utcnow()
    image_grants.grant("h1", A, "two")
    assert image_grants.images_before("h1", between) == {B}
    assert image_grants.images_before("h1", between - SECOND) == set()
    assert image_grants.images_before("h2", between + SECOND) == set()
    image_grants.grant("h1", B, "one")
    image_grants.remove("h1", [B], between)
    assert image_grants.projects("h1", [B]) == {"one"}
    image_grants.grant("h2", B, "one")
    image_grants.remove("h1", [B], timeutils.utcnow() + SECOND)
    assert image_grants.projects("h1", [B]) == set()
    assert image_grants.projects("h1", [A]) == {"one", "two"} and image_grants.projects("h2", [B]) == {"one"}
