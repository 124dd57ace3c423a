#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

STAGES=(lint types docs unit functional integration)
ON_REQUEST=(slow engines)

usage() {
    cat <<'TEXT'
usage: tools/test.sh [STAGE...]

Passes the tests: makes a virtual environment in .run/venv, installs the project with
the tested versions, and runs the stages, all but the last two if none is named:

  lint         ruff check, and the syntax of the shell scripts
  types        mypy: strict for zun.topology and zun.scheduler, lighter for the rest
  docs         the documentation builds without a warning
  unit         rules and values; no service, two processes
  functional   the API and the programs in one process; no service, run two at a time
  integration  real containers on a Docker daemon, and the services distributed over
               RabbitMQ, MariaDB, PostgreSQL, keystone, Placement, Glance, Neutron and Cinder
               (tools/services.sh starts what does not run; as root it also installs what is
               missing)
  slow         the tests of integration that take long, on the same services: rolling upgrades from an
               earlier commit (not in a shallow clone) and to a simulated next release, services
               killed for minutes, unmodified clients. Run it before a release, and after a change of
               what it tests
  engines      the tests of the container driver on the engines of other Debian releases, each with
               runc and crun, and with containerd's store of images. Needs root and the packages of
               Debian; takes about 6 minutes an engine

A failed stage does not keep the next ones from running; the exit status tells in the end.
Output is kept in .run/test/<stage>.log. Environment: PYTHON, ZUN_RUN_DIR.
TEXT
}

# stage_COMMANDS run with errexit off inside "if"; each returns its own status.
stage_lint() {
    "$VENV/bin/ruff" check . && bash -n tools/*.sh devstack/plugin.sh devstack/lib/zun .ci/run
}
stage_types() {
    "$VENV/bin/mypy"
}
stage_docs() {
    # -E: pages that have not changed since the last build may have warnings, too.
    "$VENV/bin/sphinx-build" -q -W -n -E --keep-going -b html doc/source .run/html || return
    if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
        echo "the release notes are not built: reno reads the whole history (git fetch --unshallow)"
        return
    fi
    "$VENV/bin/sphinx-build" -q -W --keep-going -b html releasenotes/source .run/releasenotes
}
stage_unit() {
    "$VENV/bin/pytest" -p no:cacheprovider -q -n 2 zun/tests/unit
}
stage_functional() {
    "$VENV/bin/pytest" -p no:cacheprovider -q -n 2 zun/tests/functional
}
stage_integration() {
    "$VENV/bin/pytest" -p no:cacheprovider -q --durations 30 -m "not slow" zun/tests/integration
}
stage_slow() {
    # A shallow clone lacks the commit of the release before: -rs says so.
    "$VENV/bin/pytest" -p no:cacheprovider -q -rs --durations 30 -m slow zun/tests/integration
}

stage_engines() {
    local row suite options failed=()
    while read -r row suite options; do
        echo "==> $row: Docker of $suite with $options"
        ZUN_ENGINE_OPTIONS=$options tools/engine.sh "$suite" \
            "$VENV/bin/pytest" -p no:cacheprovider -q -rs --durations 5 zun/tests/integration/container </dev/null \
            || failed+=("$row")
    done <<'ROWS'
trixie trixie --storage-driver=vfs
trixie-crun trixie --storage-driver=vfs --add-runtime=crun=/usr/bin/crun --default-runtime=crun
sid sid --storage-driver=vfs
sid-crun sid --storage-driver=vfs --add-runtime=crun=/usr/bin/crun --default-runtime=crun
sid-containerd sid --storage-driver=native --feature=containerd-snapshotter=true
ROWS
    [ ${#failed[@]} -eq 0 ] || echo "error: tests failed on ${failed[*]}"
    [ ${#failed[@]} -eq 0 ]
}

# limit STAGE: seconds after which a stage is ended: its own measure, or what is left of
# 85 minutes since we were called. A passing run takes two thirds of it; a loaded machine more.
limit() {
    local most left=$((5100 - SECONDS))
    case $1 in
        lint) most=60 ;;
        types | docs) most=600 ;;
        unit | functional) most=1500 ;;
        integration | slow | engines) most=3000 ;;
    esac
    [ "$left" -gt 1 ] || left=1
    echo $((most < left ? most : left))
}

# run_stage NAME: its output goes to a file that is shown as it grows. Not through a
# pipe: a process that a test forgot would hold that open, and us with it.
run_stage() {
    local name=$1 log=$LOGS/$1.log pid shown status=0 most
    most=$(limit "$name")
    say "Stage $name"
    : >"$log"
    export -f "stage_$name"
    export VENV
    # Interrupted rather than terminated, because pytest then ends what its fixtures started;
    # the shell starts background processes deaf to that signal.
    setsid env --default-signal=INT timeout --signal=INT --kill-after=30 "$most" bash -c "stage_$name" \
        </dev/null >"$log" 2>&1 &
    pid=$!
    current=$pid
    tail -n +1 -s 0.2 -f --pid="$pid" "$log" &
    shown=$!
    wait "$pid" || status=$?
    wait "$shown"
    kill -KILL -- "-$pid" 2>/dev/null || true
    current=
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        echo "error: stage $name was ended after $most s" | tee -a "$log"
    fi
    return "$status"
}

# The line that ruff, mypy or pytest sums up with; whatever came last if it did not get so far.
last_line() {
    grep -E '^(Found |All checks passed|Success: |[0-9]+ (passed|failed|error|skipped|deselected)|no tests ran|error: )' \
        "$LOGS/$1.log" | tail -n 1 | grep . || grep -v '^[[:space:]]*$' "$LOGS/$1.log" | tail -n 1
}

need_services() {
    local one
    "$ROOT/tools/services.sh" install
    for one in rabbit mysql postgres keystone placement glance registry neutron cinder; do
        running "$one" || ours+=("$one")
    done
    docker_answers || ours+=(docker)
    "$ROOT/tools/services.sh" start
    eval "$("$ROOT/tools/services.sh" env)"
}

stage_gone() { ! kill -0 "$current"; }

# Ends a stage that still runs, and the services that were started for it. Twice is harmless.
cleanup() {
    if [ -n "${current:-}" ]; then
        kill -INT -- "-$current" 2>/dev/null || true
        wait_until 30 stage_gone || true
        kill -KILL -- "-$current" 2>/dev/null || true
    fi
    if [ ${#ours[@]} -gt 0 ]; then
        say "Stopping ${ours[*]}"
        "$ROOT/tools/services.sh" stop "${ours[@]}" || true
    fi
    ours=() current=
}

main() {
    local stage stages=() failed=()
    for stage in "$@"; do
        case $stage in
            -h | --help) usage && exit 0 ;;
            *)
                [[ " ${STAGES[*]} ${ON_REQUEST[*]} " == *" $stage "* ]] || { usage >&2 && die "there is no stage $stage."; }
                stages+=("$stage")
                ;;
        esac
    done
    [ ${#stages[@]} -gt 0 ] || stages=("${STAGES[@]}")

    cd "$ROOT"
    LOGS=$RUN_DIR/test
    mkdir -p "$LOGS"
    ours=()
    trap cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM

    make_venv tests
    if [[ " ${stages[*]} " == *" integration "* || " ${stages[*]} " == *" slow "* ]]; then
        need_services
        # A missing service fails the tests that need it; it never skips them.
        export ZUN_REQUIRE_DOCKER=1 ZUN_REQUIRE_RABBIT=1 ZUN_REQUIRE_MYSQL=1 ZUN_REQUIRE_POSTGRES=1
        export ZUN_REQUIRE_KEYSTONE=1 ZUN_REQUIRE_PLACEMENT=1 ZUN_REQUIRE_GLANCE=1 ZUN_REQUIRE_REGISTRY=1
        export ZUN_REQUIRE_NEUTRON=1 ZUN_REQUIRE_CINDER=1
        export ZUN_REQUIRE_FOREIGN=1 ZUN_REQUIRE_NGINX=1 ZUN_REQUIRE_PROMTOOL=1 ZUN_REQUIRE_SYSTEMD=1
    fi
    export PATH="$VENV/bin:$PATH"
    for stage in "${stages[@]}"; do
        run_stage "$stage" || failed+=("$stage")
    done

    cleanup
    echo
    for stage in "${stages[@]}"; do
        if [[ " ${failed[*]} " == *" $stage "* ]]; then
            printf 'FAILED  %-12s %s\n' "$stage" "$(last_line "$stage")"
        else
            printf 'passed  %-12s %s\n' "$stage" "$(last_line "$stage")"
        fi
    done
    [ ${#failed[@]} -eq 0 ]
}

main "$@"
