#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

STAGES=(lint types docs functional in_turn unit browser integration alone)
ON_REQUEST=(slow engines devstack)

usage() {
    cat <<'TEXT'
usage: tools/test.sh [STAGE...]

Passes the tests: makes a virtual environment in .run/venv, installs the project with
the tested versions, and runs the stages, all but the last three if none is named:

  lint         ruff check, and the syntax of the shell scripts
  types        mypy: strict for zun.topology and zun.scheduler, lighter for the rest
  docs         the documentation builds without a warning
  functional   the API and the programs in one process; no service, four at a time
  unit         rules and values, four at a time; with the databases if a later stage needs services
  browser      the page in Chromium (of the distribution: root gets it if it is missing), two files at a
               time; screenshots are kept in .run/screenshots
  integration  two at a time: real containers on a Docker daemon, and the services distributed over
               RabbitMQ, MariaDB, PostgreSQL, keystone, Placement, Glance, Neutron and Cinder
               (tools/services.sh starts what does not run; as root it also installs what is
               missing). Brings in_turn and alone with it
  in_turn      the tests of integration that share a service: one at a time, beside the stages after it
  alone        the tests of integration that need the machine for themselves, after all others
  slow         the tests of integration that take long, on the same services: rolling upgrades from an
               earlier commit (not in a shallow clone) and to a simulated next release, services
               killed for minutes, unmodified clients. Run it before a release, and after a change of
               what it tests
  engines      the tests of what depends on the engine, on those of other Debian releases, with runc,
               with crun, and with containerd's store of images, and on Podman. Needs root and the
               packages of Debian; takes about 10 minutes a row. ZUN_ENGINE_ROWS chooses rows: bookworm, trixie,
               trixie-crun, sid, sid-crun, sid-containerd,
               trixie-podman, sid-podman, and changes (one Docker after another under containers that run)
  devstack     the tests of the devstack plugin with the bash, the Python and the tools of Debian 13, on
               the services of this machine. Needs root, the packages of Debian, and ZUN_DEVSTACK: a checkout
               of devstack, or an archive of one. ZUN_DEVSTACK_SUITE: another release than trixie

The services are installed and started while the stages before unit run. A failed stage
does not keep the next ones from running; the exit status and the last lines tell in the end.
Output is kept in .run/test/<stage>.log and .run/test/services.log. Environment: PYTHON, ZUN_RUN_DIR,
ZUN_ENGINE_ROWS.
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
# Four at a time even on two CPUs: threads that wait for each other are most of the time of many tests.
stage_unit() {
    "$VENV/bin/pytest" -p no:cacheprovider -q -n 4 --dist worksteal --durations 10 --durations-min 1 \
        zun/tests/unit
}
stage_functional() {
    "$VENV/bin/pytest" -p no:cacheprovider -q -n 4 --dist worksteal --durations 10 --durations-min 1 \
        zun/tests/functional
}
stage_browser() {
    ZUN_REQUIRE_BROWSER=1 "$VENV/bin/pytest" -p no:cacheprovider -q -n 2 --dist loadfile --durations 10 \
        --durations-min 1 zun/tests/browser
}
integration_tests() {
    "$VENV/bin/pytest" -p no:cacheprovider -q --durations 10 zun/tests/integration -m "$@"
}
stage_in_turn() { integration_tests "not slow and in_turn and not alone"; }
stage_integration() { integration_tests "not slow and not in_turn and not alone" -n 2 --dist loadfile; }
stage_alone() { integration_tests "not slow and alone"; }
stage_slow() {
    # A shallow clone lacks the commit of the release before: -rs says so.
    "$VENV/bin/pytest" -p no:cacheprovider -q -rs --durations 30 -m slow zun/tests/integration
}

# What an engine may do otherwise: the container driver, and in containers of the service networks, volumes, devices,
# archives, terminals, runtimes and images of a registry, which has to be in the engine's network.
engine_tests() {
    set -e
    if [ -n "${PODMAN_HOST:-}" ]; then
        "$VENV/bin/pytest" -p no:cacheprovider -q -rs --durations 10 \
            zun/tests/integration/container/test_{contract,devices,engines_podman,huge_pages,podman,profile}.py
        return
    fi
    local files=(zun/tests/integration/test_{archives,capsules,devices,mounts,networks,registries,runtimes,terminals}.py)
    export ZUN_RUN_DIR=$PWD/.run/engines ZUN_REQUIRE_DOCKER=1 ZUN_REQUIRE_REGISTRY=1
    tools/services.sh start registry
    trap 'tools/services.sh stop registry' EXIT
    eval "$(tools/services.sh env registry)"
    "$VENV/bin/pytest" -p no:cacheprovider -q -rs --durations 10 -m "docker and not slow" \
        zun/tests/integration/container "${files[@]}"
}
stage_engines() {
    local row suite options failed=() known=
    tools/services.sh install registry || return
    while read -r row suite options; do
        [[ " ${ZUN_ENGINE_ROWS:-$row} " == *" $row "* ]] || continue
        known=1
        echo "==> $row: $suite $options"
        ZUN_ENGINE_OPTIONS=$options tools/engine.sh "$suite" bash -c engine_tests </dev/null || failed+=("$row")
    done <<'ROWS'
bookworm bookworm
trixie trixie
trixie-crun trixie --add-runtime=crun=/usr/bin/crun --default-runtime=crun
sid sid
sid-crun sid --add-runtime=crun=/usr/bin/crun --default-runtime=crun
trixie-podman trixie-podman
sid-podman sid-podman
sid-containerd sid --feature=containerd-snapshotter=true
ROWS
    if [[ " ${ZUN_ENGINE_ROWS:-changes} " == *" changes "* ]]; then
        known=1
        echo "==> changes: another Docker, or another store, under containers that run"
        { tools/engine.sh fetch trixie sid && ZUN_REQUIRE_ENGINES=1 "$VENV/bin/pytest" -p no:cacheprovider -q -rs \
            --durations 10 zun/tests/integration/test_engine_changes.py; } || failed+=(changes)
    fi
    [ ${#failed[@]} -eq 0 ] || echo "error: tests failed on ${failed[*]}"
    [ -n "$known" ] || echo "error: ZUN_ENGINE_ROWS=$ZUN_ENGINE_ROWS names no row"
    [ ${#failed[@]} -eq 0 ] && [ -n "$known" ]
}

stage_devstack() {
    local suite=${ZUN_DEVSTACK_SUITE:-trixie}
    tools/suite.sh make "$suite" python3-venv python3-dev gcc libc6-dev git nginx-light iptables iproute2 procps \
        mariadb-server docker.io docker-cli curl || return
    # shellcheck disable=SC2016 # VENV is of that shell
    ZUN_SUITE_PATHS=${ZUN_DEVSTACK:-} ZUN_REQUIRE_DEVSTACK=1 tools/suite.sh "$suite" \
        env ZUN_RUN_DIR="$PWD/.run/devstack-$suite" bash -ec '
            . tools/common.sh
            make_venv tests
            bash --version | head -n 1
            "$VENV/bin/python" --version
            "$VENV/bin/pytest" -p no:cacheprovider -q -rs --durations 10 zun/tests/integration/test_devstack.py'
}

# limit STAGE: seconds after which a stage is ended: its own measure, or what is left of
# 85 minutes since we were called. A passing run takes half of it; a loaded machine more.
limit() {
    local most left=$((5100 - SECONDS))
    case $1 in
        lint) most=60 ;;
        types | docs) most=600 ;;
        unit | functional | browser) most=1500 ;;
        in_turn | integration | alone | slow | devstack) most=3000 ;;
        engines) most=5000 ;;
    esac
    [ "$left" -gt 1 ] || left=1
    echo $((most < left ? most : left))
}

# begin_stage NAME: its output goes to a file. Not through a pipe: a process that a test forgot would hold that open, and
# us with it.
begin_stage() {
    local name=$1
    most[$name]=$(limit "$name")
    began[$name]=$SECONDS
    say "Stage $name"
    : >"$LOGS/$name.log"
    export -f "stage_$name" engine_tests integration_tests
    export VENV
    # Interrupted rather than terminated, because pytest then ends what its fixtures started;
    # the shell starts background processes deaf to that signal.
    setsid env --default-signal=INT timeout --signal=INT --kill-after=30 "${most[$name]}" bash -c "stage_$name" \
        </dev/null >"$LOGS/$name.log" 2>&1 &
    begun[$name]=$!
}

# end_stage NAME: wait for a stage that has begun, and show its output as it grows.
end_stage() {
    local name=$1 pid=${begun[$1]} shown status=0
    tail -n +1 -s 0.2 -f --pid="$pid" "$LOGS/$name.log" &
    shown=$!
    wait "$pid" || status=$?
    wait "$shown"
    kill -KILL -- "-$pid" 2>/dev/null || true
    unset "begun[$name]"
    took[$name]=$((SECONDS - began[$name]))
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        echo "error: stage $name was ended after ${most[$name]} s" | tee -a "$LOGS/$name.log"
    fi
    [ "$status" -eq 0 ] || failed+=("$name")
}

await_in_turn() {
    if [ -n "${begun[in_turn]:-}" ]; then
        say "Waiting for in_turn"
        end_stage in_turn
    fi
}

# The line that ruff, mypy or pytest sums up with; whatever came last if there is none.
last_line() {
    grep -E '^(Found |All checks passed|Success: |[0-9]+ (passed|failed|error|skipped|deselected)|no tests ran|error: )' \
        "$LOGS/$1.log" | tail -n 1 | grep . || grep -v '^[[:space:]]*$' "$LOGS/$1.log" | tail -n 1
}

# begin_services: install and start them, beside the stages that need none. Output goes to a file: a service that holds a
# pipe open would hold us with it.
begin_services() {
    local one
    for one in rabbit mysql postgres keystone placement glance registry neutron cinder; do
        running "$one" || ours+=("$one")
    done
    docker_answers || ours+=(docker)
    say "Installing and starting the services (log: $LOGS/services.log)"
    # shellcheck disable=SC2016 # $1 is of that shell
    setsid bash -c '"$1" install && "$1" start' services "$ROOT/tools/services.sh" </dev/null >"$LOGS/services.log" 2>&1 &
    services=$!
}

# await_services: until they run. Once; then the answer is known.
await_services() {
    local status=0 began=$SECONDS
    [ -n "${services:-}" ] || return "$services_failed"
    say "Waiting for the services"
    wait "$services" || status=$?
    services=''
    took[waiting]=$((SECONDS - began))
    cat "$LOGS/services.log"
    if [ "$status" -eq 0 ]; then
        eval "$("$ROOT/tools/services.sh" env)"
    else
        services_failed=1
    fi
    return "$services_failed"
}

stages_gone() { ! kill -0 "${begun[@]}"; }

# Ends the stages that still run, and the services that were started for them. Twice is harmless.
cleanup() {
    if [ ${#begun[@]} -gt 0 ]; then
        kill -INT -- "${begun[@]/#/-}" 2>/dev/null || true
        wait_until 30 stages_gone || true
        kill -KILL -- "${begun[@]/#/-}" 2>/dev/null || true
    fi
    if [ -n "${services:-}" ]; then  # interrupted while they start
        kill -TERM -- "-$services" 2>/dev/null || true
        wait "$services" 2>/dev/null || true
        services=''
    fi
    if [ ${#ours[@]} -gt 0 ]; then
        say "Stopping ${ours[*]}"
        "$ROOT/tools/services.sh" stop "${ours[@]}" || true
    fi
    ours=() begun=()
}

main() {
    local stage with_services='' stages=() failed=()
    # Of stages: start, process while it runs, limit and length in seconds. Global, because cleanup also runs at exit.
    declare -gA began=() begun=() most=() took=()
    for stage in "$@"; do
        case $stage in
            -h | --help) usage && exit 0 ;;
            *)
                [[ " ${STAGES[*]} ${ON_REQUEST[*]} " == *" $stage "* ]] || { usage >&2 && die "there is no stage $stage."; }
                [ "$stage" != integration ] || stages+=(in_turn)
                stages+=("$stage")
                [ "$stage" != integration ] || stages+=(alone)
                ;;
        esac
    done
    [ ${#stages[@]} -gt 0 ] || stages=("${STAGES[@]}")

    cd "$ROOT"
    LOGS=$RUN_DIR/test
    mkdir -p "$LOGS"
    ours=() services='' services_failed=0
    trap cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM

    make_venv tests
    if [[ " ${stages[*]} " =~ " "(in_turn|integration|alone|slow|devstack)" " ]]; then
        with_services=true
        begin_services
        # A missing service fails the tests that need it; it never skips them.
        export ZUN_REQUIRE_DOCKER=1 ZUN_REQUIRE_RABBIT=1 ZUN_REQUIRE_MYSQL=1 ZUN_REQUIRE_POSTGRES=1
        export ZUN_REQUIRE_KEYSTONE=1 ZUN_REQUIRE_PLACEMENT=1 ZUN_REQUIRE_GLANCE=1 ZUN_REQUIRE_REGISTRY=1
        export ZUN_REQUIRE_NEUTRON=1 ZUN_REQUIRE_CINDER=1
        export ZUN_REQUIRE_BROWSER=1 ZUN_REQUIRE_FOREIGN=1 ZUN_REQUIRE_NGINX=1 ZUN_REQUIRE_PROMTOOL=1 ZUN_REQUIRE_SYSTEMD=1
    elif [[ " ${stages[*]} " == *" browser "* ]]; then
        need_packages chromium=chromium chromedriver=chromium-driver
    fi
    export PATH="$VENV/bin:$PATH"
    # Hundreds of processes import the project, and each would compile it anew.
    unset PYTHONDONTWRITEBYTECODE
    for stage in "${stages[@]}"; do
        # Tests of unit use databases and programs of the distribution where these are there.
        if [ -n "$with_services" ] && [[ $stage =~ ^(in_turn|unit|integration|alone|slow|devstack)$ ]] && ! await_services; then
            echo "error: the services did not start: see services.log" >"$LOGS/$stage.log"
            failed+=("$stage")
            continue
        fi
        [ "$stage" != alone ] || await_in_turn
        begin_stage "$stage"
        # Most of its time is waiting, so it runs beside the stages after it.
        [ "$stage" = in_turn ] || end_stage "$stage"
    done
    await_in_turn

    cleanup
    echo
    echo "$SECONDS s in all, of which ${took[waiting]:-0} s were spent waiting for the services"
    for stage in "${stages[@]}"; do
        if [[ " ${failed[*]} " == *" $stage "* ]]; then
            printf 'FAILED  %-12s %5s s  %s\n' "$stage" "${took[$stage]:-0}" "$(last_line "$stage")"
        else
            printf 'passed  %-12s %5s s  %s\n' "$stage" "${took[$stage]:-0}" "$(last_line "$stage")"
        fi
    done
    [ ${#failed[@]} -eq 0 ]
}

main "$@"
