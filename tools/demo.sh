#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'TEXT'
usage: tools/demo.sh [--once | --stop]

From a fresh machine to a container on a core of its own: installs the project into
.run/venv, sees to a Docker daemon (installs docker.io and busybox-static as root where
missing), starts zun-allinone on 127.0.0.1, runs one dedicated container with
"openstack appcontainer run", and shows where the kernel says it runs.

  (nothing)  leave everything running, to play with; a second call uses what runs
  --once     clean everything up in the end
  --stop     end what an earlier call left running, and forget its data

Environment: ZUN_DEMO_PORT (9517, or the next free port), PYTHON, ZUN_RUN_DIR,
DOCKER_HOST. Logs are in .run/demo/.
TEXT
}

DEMO=$RUN_DIR/demo
NAME=zun-demo

# The demo speaks to its own service, whatever cloud the shell is set up for.
for variable in ${!OS_@}; do unset "$variable"; done

endpoint() { printf 'http://127.0.0.1:%s/v1\n' "$(cat "$DEMO/port")"; }
osc() { "$VENV/bin/openstack" --os-auth-type none --os-endpoint "$(endpoint)" "$@"; }
show() {
    printf '\n$ openstack' >&2
    printf ' %s' "$@" >&2
    printf '\n' >&2
    osc "$@"
}
answers() { listens "$(cat "$DEMO/port")"; }
settled() { ended zun-allinone || answers; }

start_allinone() {
    local port proxy=6784
    if running zun-allinone && answers; then
        say "zun-allinone runs already, $(endpoint)"
        return 0
    fi
    halt zun-allinone
    mkdir -p "$DEMO"
    port=${ZUN_DEMO_PORT:-9517}
    if listens "$port"; then
        [ -z "${ZUN_DEMO_PORT:-}" ] || die "port $port is taken; set ZUN_DEMO_PORT to a free one."
        port=$(free_ports 1)
    fi
    if listens "$proxy"; then proxy=$(free_ports 1); fi
    printf '%s\n' "$port" >"$DEMO/port"
    cat >"$DEMO/zun.conf" <<TEXT
[DEFAULT]
state_path = $DEMO

[api]
host_ip = 127.0.0.1
port = $port
auth_strategy = noauth

[ui]
enabled = true

[websocket_proxy]
wsproxy_port = $proxy

[database]
connection = sqlite:///$DEMO/zun.sqlite

[docker]
api_url = ${DOCKER_HOST:-unix:///var/run/docker.sock}
TEXT
    say "Starting zun-allinone on 127.0.0.1:$port (log: $DEMO/zun-allinone.log)"
    : >"$DEMO/zun-allinone.log"
    launch zun-allinone "$DEMO/zun-allinone.log" "$VENV/bin/zun-allinone" --config-file "$DEMO/zun.conf"
    if ! wait_until 60 settled || ended zun-allinone; then
        tail -n 20 "$DEMO/zun-allinone.log" >&2
        halt zun-allinone
        die "zun-allinone did not start; its log is $DEMO/zun-allinone.log."
    fi
}

# The agent's first report of its host comes a moment after the port.
host_known() { [ -n "$(osc appcontainer host list -f value -c hostname)" ]; }

container_status() { osc appcontainer show -f value -c status "$NAME" 2>/dev/null; }
container_gone() { ! osc appcontainer show "$NAME"; }

run_container() {
    local status
    status=$(container_status) || status=
    if [ "$status" = Running ]; then
        say "The container $NAME runs already"
        return 0
    fi
    if [ -n "$status" ]; then
        say "Removing the container $NAME, which is $status"
        osc appcontainer delete --force "$NAME" >/dev/null
        wait_until 60 container_gone || die "the old container $NAME does not go away; see $DEMO/zun-allinone.log."
    fi
    show appcontainer run --name "$NAME" --cpu-policy dedicated --cpu 1 --memory 64 \
        --image-pull-policy never zun-demo sleep 1000000 >"$DEMO/run.out" ||
        die "the service refused the container; see above."
}

# Every container of the demo's service goes with it: their rows are in its database.
stop_all() {
    local name host=
    if running zun-allinone && [ -x "${VENV:=$RUN_DIR/venv}/bin/openstack" ] && answers; then
        host=$(osc appcontainer host list -f value -c hostname) || true
        for name in $(osc appcontainer list --all-projects -f value -c uuid 2>/dev/null); do
            osc appcontainer delete --force --all-projects "$name" >/dev/null || true
        done
        for name in $(osc appcontainer capsule list --all-projects -f value -c uuid 2>/dev/null); do
            osc appcontainer capsule delete --force "$name" >/dev/null || true
        done
        wait_until 30 no_containers || warn "some containers of the demo are left: docker ps --filter name=zun-"
    fi
    if running zun-allinone; then say "Stopping zun-allinone"; fi
    halt zun-allinone
    # The service removes a default network that nobody uses within a minute, which is later than now.
    if [ -n "$host" ]; then
        for name in $(docker network ls -q --filter label=zun.default --filter "label=zun.host=$host"); do
            docker network rm "$name" >/dev/null 2>&1 || warn "the network $name is in use and stays"
        done
    fi
    if running dockerd; then
        say "Stopping the Docker daemon that was started here"
        halt dockerd 30
    fi
    rm -rf "$DEMO"
}
no_containers() {
    local noun
    for noun in "" capsule; do
        # shellcheck disable=SC2086 # containers have no noun
        [ -z "$(osc appcontainer $noun list --all-projects -f value -c uuid)" ] || return 1
    done
}

main() {
    local once=false host
    case "${1:-}" in
        '') ;;
        --once) once=true ;;
        --stop) stop_all && exit 0 ;;
        -h | --help) usage && exit 0 ;;
        *) usage >&2 && exit 2 ;;
    esac
    mkdir -p "$RUN_DIR"
    if "$once"; then trap stop_all EXIT; fi
    trap 'exit 130' INT
    trap 'exit 143' TERM

    # shellcheck disable=SC2119  # its arguments are pip's, not ours
    make_venv
    need_docker
    demo_image
    start_allinone
    wait_until 60 host_known || die "the agent did not report its host; see $DEMO/zun-allinone.log."
    run_container

    echo
    "$VENV/bin/python" "$ROOT/tools/pinning.py" --endpoint "$(endpoint)" "$NAME"
    host=$(osc appcontainer show -f value -c host "$NAME")
    show appcontainer host topology show --map "$host"

    if ! "$once"; then
        cat <<TEXT

The service goes on running. In a browser: $(endpoint | sed 's,/v1$,/ui/,'). In a shell:

    export PATH=$VENV/bin:\$PATH OS_AUTH_TYPE=none OS_ENDPOINT=$(endpoint)
    openstack appcontainer list
    openstack appcontainer show --placement $NAME
    openstack appcontainer run --help

To end it and forget its data: tools/demo.sh --stop
TEXT
    fi
}

main "$@"
