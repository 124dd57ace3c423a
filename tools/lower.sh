#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the lower bounds of requirements.txt into .run/lower and collects the unit
# tests there, which imports every module; "tools/lower.sh run" also runs them. A few minutes.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# openapi-spec-validator, which only this test needs, wants a newer jsonschema than the lower bound.
left_out=(--ignore zun/tests/unit/api/test_openapi.py)

cd "$ROOT"
rm -rf "$RUN_DIR/lower"
mkdir -p "$RUN_DIR"
"$(python_program)" -m venv "$RUN_DIR/lower"
"$RUN_DIR/lower/bin/pip" -q install uv
say "Installing the lower bounds"
"$RUN_DIR/lower/bin/uv" pip install -q --python "$RUN_DIR/lower/bin/python" --resolution lowest-direct \
    -r requirements.txt 'setuptools>=78.1.1' 'pbr>=6.1'
# What the tests need comes on top, without a change of the lower bounds.
"$RUN_DIR/lower/bin/uv" pip freeze --python "$RUN_DIR/lower/bin/python" >"$RUN_DIR/lower.txt"
"$RUN_DIR/lower/bin/uv" pip install -q --python "$RUN_DIR/lower/bin/python" -c "$RUN_DIR/lower.txt" \
    hypothesis os-vif pexpect psycopg pytest pytest-timeout pytest-xdist python-openstackclient \
    python-zunclient
"$RUN_DIR/lower/bin/pip" -q install --no-deps --no-build-isolation -e .
if [ "${1:-}" = run ]; then
    "$RUN_DIR/lower/bin/pytest" -p no:cacheprovider -q -n 2 "${left_out[@]}" zun/tests/unit
else
    "$RUN_DIR/lower/bin/pytest" -p no:cacheprovider -q --collect-only "${left_out[@]}" zun/tests/unit | tail -n 1
fi
