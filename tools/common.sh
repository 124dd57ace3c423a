# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by demo.sh, test.sh and services.sh: messages, long-running processes
# by id, the virtual environment, distribution packages, the Docker daemon.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
RUN_DIR=$(realpath -ms "${ZUN_RUN_DIR:-$ROOT/.run}") # apt takes a relative path as one below its own folder
[ -z "${ZUN_RUN_DIR:-}" ] || ZUN_RUN_DIR=$RUN_DIR    # also for the scripts that this one runs

say() { printf '==> %s\n' "$*" >&2; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}
is_root() { [ "$(id -u)" -eq 0 ]; }
have() { command -v "$1" >/dev/null 2>&1; }

# The start time of a process, in clock ticks after boot: with the id it names
# one process for ever, so that a recycled id is never signalled.
started_at() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

# launch NAME LOG COMMAND...: start COMMAND in a session and process group of its
# own, without our terminal or our output, and remember it in $RUN_DIR/NAME.pid.
launch() {
    local name=$1 log=$2 pid
    shift 2
    setsid "$@" </dev/null >>"$log" 2>&1 &
    pid=$!
    printf '%s %s\n' "$pid" "$(started_at "$pid")" >"$RUN_DIR/$name.pid"
}

# running NAME: is what launch started still there?
running() {
    local pid started
    [ -s "$RUN_DIR/$1.pid" ] && read -r pid started <"$RUN_DIR/$1.pid" || return 1
    [ -n "$started" ] && [ "$(started_at "$pid")" = "$started" ]
}

# wait_until SECONDS COMMAND...: run COMMAND until it succeeds.
wait_until() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.2
    done
}

ended() { ! running "$1"; }

# halt NAME [SECONDS]: end what launch started, all of its process group, asking first.
halt() {
    local pid
    if running "$1"; then
        read -r pid _ <"$RUN_DIR/$1.pid"
        kill -TERM "$pid" 2>/dev/null || true
        wait_until "${2:-20}" ended "$1" || warn "$1 ($pid) did not stop in ${2:-20} s; killing it"
        kill -KILL -- "-$pid" 2>/dev/null || true
    fi
    rm -f "$RUN_DIR/$1.pid"
}

# free_ports N: N different free TCP ports of 127.0.0.1, blank separated.
free_ports() {
    "$(python_program)" - "$1" <<'PYTHON'
import socket
import sys

held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(one.getsockname()[1] for one in held))
PYTHON
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# The first Python that is new enough.
python_program() {
    local name
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$name"
            return
        fi
    done
    die "Python 3.11 or later is needed; install it or point PYTHON at it."
}

# need_packages COMMAND=PACKAGE...: install each PACKAGE whose COMMAND is missing.
# Nothing that is installed here may start by itself: a policy-rc.d that says no
# is in place meanwhile, unless the machine brought one.
need_packages() {
    local pair missing=() policy=/usr/sbin/policy-rc.d ours=false failed=false
    for pair in "$@"; do
        PATH="$PATH:/usr/sbin:/sbin" have "${pair%%=*}" || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! is_root || ! have apt-get; then
        die "These distribution packages are missing: ${missing[*]}. Install them, then run this again" \
            "(on Debian or Ubuntu: sudo apt-get update && sudo apt-get install ${missing[*]})."
    fi
    say "Installing ${missing[*]} from the distribution (log: $RUN_DIR/apt.log)"
    mkdir -p "$RUN_DIR"
    if [ ! -e "$policy" ]; then
        ours=true
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    {
        DEBIAN_FRONTEND=noninteractive apt-get -q update &&
            DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "${missing[@]}"
    } </dev/null >>"$RUN_DIR/apt.log" 2>&1 || failed=true
    ! "$ours" || rm -f "$policy"
    if "$failed"; then
        tail -n 20 "$RUN_DIR/apt.log" >&2
        die "apt-get could not install ${missing[*]}; the whole output is in $RUN_DIR/apt.log."
    fi
}

# make_venv [tests]: the project in $RUN_DIR/venv, with the tested versions, whose
# archives have the known hashes; "tests": also what tests and documentation need.
# A second call with the same requirements does nothing.
make_venv() {
    local python stamp hashed=requirements-hashed.txt
    [ $# -eq 0 ] || hashed=test-requirements-hashed.txt
    VENV=$RUN_DIR/venv
    [ -n "${PYTHON:-}" ] || need_packages python3=python3
    python=$(python_program)
    stamp=$({
        printf '%s ' "$ROOT"
        "$python" --version
        cd "$ROOT" && cat setup.cfg pyproject.toml requirements.txt "$hashed"
    } | sha256sum | cut -d ' ' -f 1)
    if [ -x "$VENV/bin/python" ] && grep -q -x "$stamp" "$VENV/installed" 2>/dev/null; then
        return 0
    fi
    mkdir -p "$RUN_DIR"
    if [ ! -x "$VENV/bin/pip" ]; then
        if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            need_packages ensurepip=python3-venv
        fi
        "$python" -m venv "$VENV" || die "$python -m venv $VENV failed; remove that folder and see above."
    fi
    # pbr reads the version from git; an exported tree or a foreign owner has none to give.
    if ! git -C "$ROOT" rev-parse --git-dir >/dev/null 2>&1; then
        export PBR_VERSION=${PBR_VERSION:-1.0.0}
    fi
    say "Installing the project into $VENV (a minute or two; log: $RUN_DIR/pip.log)"
    if ! (cd "$ROOT" && "$VENV/bin/pip" install --require-hashes -r "$hashed" &&
        "$VENV/bin/pip" install --no-build-isolation --no-deps -e .) \
        </dev/null >"$RUN_DIR/pip.log" 2>&1; then
        tail -n 20 "$RUN_DIR/pip.log" >&2
        die "pip could not install the project; the whole output is in $RUN_DIR/pip.log."
    fi
    printf '%s\n' "$stamp" >>"$VENV/installed"
}

docker_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# dockers_here: the Docker daemons in our network. One in a network of its own (tools/engine.sh) is no obstacle.
dockers_here() {
    local each here found=()
    here=$(readlink /proc/self/ns/net)
    for each in $(pidof dockerd); do
        if [ "$(readlink "/proc/$each/ns/net")" = "$here" ]; then
            found+=("$each")
        fi
    done
    echo "${found[@]}"
}

# need_docker: a Docker daemon that answers. The one that runs is used as it is;
# otherwise the init system starts the distribution's, and where there is no init
# system we start one ourselves ($RUN_DIR/dockerd.pid tells that it is ours).
#
# Only ever at the default socket, where there is no daemon: a second one beside a
# running one, even with folders and a socket of its own, takes the bridge docker0
# away from the first ("--bridge none" deletes it), and with it the network of every
# container.
need_docker() {
    local daemons
    ! docker_answers || return 0
    [ -z "${DOCKER_HOST:-}" ] || [ "$DOCKER_HOST" = unix:///var/run/docker.sock ] ||
        die "No Docker daemon answers at DOCKER_HOST=$DOCKER_HOST. Start that one, or unset DOCKER_HOST."
    need_packages dockerd=docker.io iptables=iptables
    # Newer distributions have the client in a package of its own.
    need_packages docker=docker-cli
    ! docker_answers || return 0
    if ! is_root; then
        die "No Docker daemon answers on /var/run/docker.sock. Start it (sudo systemctl start docker) and see" \
            "that you may use it (sudo usermod -aG docker $(id -un) and a new login), or run this as root."
    fi
    daemons=$(dockers_here)
    if [ -n "$daemons" ]; then
        die "A Docker daemon runs (process $daemons) but does not answer on /var/run/docker.sock; point" \
            "DOCKER_HOST at its socket, or stop it."
    fi
    mkdir -p "$RUN_DIR"
    if [ -d /run/systemd/system ]; then
        say "Starting the Docker daemon (systemctl start docker)"
        systemctl start docker </dev/null || die "systemctl start docker failed; see journalctl -u docker."
    else
        say "Starting a Docker daemon (log: $RUN_DIR/dockerd.log)"
        : >"$RUN_DIR/dockerd.log"
        launch dockerd "$RUN_DIR/dockerd.log" env PATH="$PATH:/usr/sbin:/sbin" dockerd
    fi
    if ! wait_until 60 docker_answers; then
        if [ -s "$RUN_DIR/dockerd.log" ]; then tail -n 20 "$RUN_DIR/dockerd.log" >&2; fi
        halt dockerd
        die "The Docker daemon did not answer within 60 s; its log is $RUN_DIR/dockerd.log."
    fi
}

# demo_image: zun-demo:latest, a static busybox and nothing else.
demo_image() {
    local busybox tree applet
    ! docker image inspect zun-demo:latest >/dev/null 2>&1 || return 0
    need_packages busybox=busybox-static
    busybox=$(command -v busybox)
    # A dynamically linked one cannot run alone in an image.
    if busybox_is_dynamic "$busybox"; then
        need_packages "static busybox=busybox-static"
        busybox=$(command -v busybox)
    fi
    say "Building the image zun-demo:latest from $busybox"
    tree=$(mktemp -d)
    mkdir -p "$tree"/{bin,dev,etc,proc,root,sys,tmp}
    cp "$busybox" "$tree/bin/busybox"
    for applet in $("$busybox" --list); do
        [ "$applet" = busybox ] || ln -s busybox "$tree/bin/$applet"
    done
    printf 'root:x:0:0:root:/root:/bin/sh\n' >"$tree/etc/passwd"
    printf 'root:x:0:\n' >"$tree/etc/group"
    if ! tar -C "$tree" -c . | docker import --change 'ENV PATH=/bin' --change 'CMD ["sh"]' - zun-demo:latest \
        >/dev/null; then
        rm -rf "$tree"
        die "docker import of the demo image failed; see above."
    fi
    rm -rf "$tree"
}

# Does the ELF file name a program interpreter?  ("/lib/ld-..." or "/lib64/ld-...")
busybox_is_dynamic() { head -c 4096 "$1" | grep -q -a -E '/lib(64|32)?/ld-'; }
