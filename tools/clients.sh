#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'TEXT'
usage: tools/clients.sh [tempest] [horizon] [panels]

Tries clients that others wrote, all if none is named: installs each into a virtual
environment of its own (.run/foreign), starts a keystone, a Glance, a Neutron, a Cinder,
and a Docker daemon if none answers, runs the client against a zun-allinone, prints what
came of it, and ends all that it started. Needs root: volumes and networks are real.

  tempest  the API tests of zun-tempest-plugin, with stestr's list of results
  horizon  Horizon with zun-ui: every request of its scripts, and its pages in a headless
           Chromium (installed as root where it is missing); pictures in .run/pictures
  panels   the panels of this project in that Horizon, on hosts in memory; pictures in
           .run/screenshots

The exit status tells whether all is as the tests say it should be: what the suite cannot
pass here is listed in zun/tests/integration/test_clients_tempest.py.
TEXT
}

needed=(rabbit mysql keystone glance docker neutron cinder)
ours=()
cleanup() {
    if [ ${#ours[@]} -gt 0 ]; then "$ROOT/tools/services.sh" stop "${ours[@]}" || true; fi
    ours=()
}

main() {
    local one files=()
    for one in "$@"; do
        case $one in
            -h | --help) usage && exit 0 ;;
            tempest | horizon | panels) ;;
            *) usage >&2 && exit 2 ;;
        esac
    done
    [ $# -gt 0 ] || set -- tempest horizon panels
    for one in "$@"; do files+=("zun/tests/integration/test_clients_$one.py"); done

    cd "$ROOT"
    trap cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    make_venv tests
    "$ROOT/tools/services.sh" install "${needed[@]}"
    if [[ " $* " =~ \ (horizon|panels)\  ]]; then need_packages chromium=chromium chromedriver=chromium-driver; fi
    for one in "${needed[@]}"; do
        if [ "$one" = docker ]; then docker_answers; else running "$one"; fi || ours+=("$one")
    done
    "$ROOT/tools/services.sh" start "${needed[@]}"
    eval "$("$ROOT/tools/services.sh" env "${needed[@]}")"
    export PATH="$VENV/bin:$PATH" ZUN_TEST_PICTURES="$RUN_DIR/pictures"
    export ZUN_REQUIRE_DOCKER=1 ZUN_REQUIRE_KEYSTONE=1 ZUN_REQUIRE_FOREIGN=1 ZUN_TEST_BROWSER=1 ZUN_REQUIRE_BROWSER=1
    export ZUN_REQUIRE_GLANCE=1 ZUN_REQUIRE_NEUTRON=1 ZUN_REQUIRE_CINDER=1
    "$VENV/bin/pytest" -p no:cacheprovider -q -s "${files[@]}" </dev/null
}

main "$@"
