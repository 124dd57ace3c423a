#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pytest-xdist promises with --dist loadgroup that tests of one xdist_group run in the same worker, so in turn. With
# pytest 9.2.0 the tests of one group run in several workers at the same time, without a word: tests that share a port,
# a database or a device meet. The report still says "scheduling tests via LoadGroupScheduling".
#
# Versions: pytest-xdist 3.8.0 with pytest 9.2.0 (not with pytest 9.0.3). Needs Python 3.11 or later with venv; installs
# into a temporary folder.
#
# Output seen:
#   pytest 9.0.3: one group ran in 1 worker
#   pytest 9.2.0: one group ran in 2 workers
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/test_group.py" <<'PYTHON'
import os
import time

import pytest


@pytest.mark.xdist_group("device")
@pytest.mark.parametrize("number", range(12))
def test_in_turn(number):
    with open(os.environ["SEEN"], "a") as seen:
        print(os.environ["PYTEST_XDIST_WORKER"], file=seen)
    time.sleep(0.3)
PYTHON
# workers VERSION: how many workers ran the group with this pytest.
workers() {
    python3 -m venv "$folder/$1"
    "$folder/$1/bin/pip" -q --disable-pip-version-check install pytest-xdist==3.8.0 "pytest==$1"
    (cd "$folder" && SEEN=$folder/seen-$1 "$1/bin/pytest" -q -p no:cacheprovider -n 2 --dist loadgroup test_group.py) >&2
    sort -u "$folder/seen-$1" | wc -l
}
before=$(workers 9.0.3)
after=$(workers 9.2.0)
echo "pytest 9.0.3: one group ran in $before worker"
echo "pytest 9.2.0: one group ran in $after workers"
[ "$before" -eq 1 ] && [ "$after" -eq 2 ]
