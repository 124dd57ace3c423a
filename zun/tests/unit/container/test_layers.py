# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.container.docker.layers import roots

CHANGED, ADDED = 0, 1


@pytest.mark.parametrize(
    ("changes", "mounts", "expected"),
    [
        pytest.param({}, (), [], id="nothing"),
        pytest.param({"/etc": CHANGED, "/etc/a": CHANGED, "/etc/b": ADDED}, (), ["/etc/a", "/etc/b"], id="files"),
        pytest.param({"/var": CHANGED, "/var/new": ADDED, "/var/new/a": ADDED}, (), ["/var/new"], id="new-folder"),
        pytest.param({"/a": ADDED, "/ab": ADDED, "/a/b": ADDED}, (), ["/a", "/ab"], id="names-alike"),
        pytest.param({"/data": ADDED}, ("/data",), [], id="mount-point"),
        pytest.param({"/srv": ADDED, "/srv/x": ADDED, "/srv/y": ADDED}, ("/srv/x/d",), ["/srv/y"], id="beside-mount"),
        pytest.param({"/data": CHANGED, "/data/x": ADDED}, ("/data",), [], id="below-a-mount"),
        pytest.param({"/etc": CHANGED}, (), ["/etc"], id="rights-of-a-folder"),
    ],
)
def test_what_of_the_changes_moves_along(changes, mounts, expected):
    assert roots(changes, mounts) == expected
