#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'TEXT'
usage: tools/engine.sh SUITE[-podman] COMMAND...
       tools/engine.sh fetch SUITE...

Run COMMAND beside the Docker of another Debian release, without installing it: for
example bookworm (Docker 20.10), trixie (26.1) or sid (28.5). DOCKER_HOST names its
socket, and the dockerd in PATH is of this release too, for tests that start a daemon
of their own. With -podman, the engine is the Podman of the release, and PODMAN_HOST
names its socket. The daemon and COMMAND have a network of their own. Needs root, and apt
of any Debian.

  tools/engine.sh sid .run/venv/bin/pytest zun/tests/integration/test_network_driver.py

"fetch" only brings the packages, for tests in which one release comes after another.

Environment: ZUN_ENGINE_NETWORK=host (in the network of this machine, without a default
bridge and iptables: for tests with other services), ZUN_ENGINE_OPTIONS (more options of
dockerd), ZUN_RUN_DIR. The packages are in .run/engines/SUITE; remove it for newer ones.
TEXT
}

PACKAGES=(docker.io crun iptables procps busybox-static) # Docker runs ps for the list of processes
PODMAN_PACKAGES=(podman crun conmon netavark aardvark-dns catatonit iptables nftables procps busybox-static
    golang-github-containers-common golang-github-containers-image)

# fetch SUITE[-podman] FOLDER: unpack the suite's packages into FOLDER/root.
fetch() {
    local suite=${1%-podman} folder=$2 uri name package program=dockerd packages=("${PACKAGES[@]}")
    [ "$suite" = "$1" ] || program=podman packages=("${PODMAN_PACKAGES[@]}")
    uri=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -1)
    [ -n "$uri" ] || die "apt has no source of packages. Add one to /etc/apt/sources.list.d."
    rm -rf "$folder"
    mkdir -p "$folder"/lists/partial "$folder"/cache/archives/partial
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$uri" "$suite" >"$folder/list"
    local apt=(apt-get -qq -o "Dir::Etc::sourcelist=$folder/list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$folder/lists"
        -o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none)
    "${apt[@]}" --error-on=any update || # else apt succeeds if the mirror does not answer
        die "apt got no list of the packages of $suite from $uri. See whether the mirror answers; the tests did not run."
    # Later releases have the client in a package of its own.
    [ $program = podman ] || ! apt-cache "${apt[@]:2}" show docker-cli >/dev/null 2>&1 || packages+=(docker-cli)
    touch "$folder/status"
    "${apt[@]}" -o "Dir::State::status=$folder/status" --no-install-recommends --download-only -y install "${packages[@]}" ||
        die "apt got no packages of $suite from $uri. See whether the mirror answers; the tests did not run."
    mkdir -p "$folder"/new/{before,proc,sys,dev,tmp,run,var/lib,var/tmp,etc/docker,etc/containers} "$folder"/new/usr/{bin,sbin,lib,lib64}
    for name in bin sbin lib lib64; do ln -s "usr/$name" "$folder/new/$name"; done
    ln -s ../run "$folder/new/var/run" # Docker looks for CDI files in /var/run/cdi
    for package in "$folder"/cache/archives/*.deb; do
        dpkg --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$folder/new"
    done
    for name in iptables ip6tables; do ln -sf xtables-legacy-multi "$folder/new/usr/sbin/$name"; done
    printf 'root:x:0:0::/:/bin/sh\n' >"$folder/new/etc/passwd"
    printf 'root:x:0:\ndocker:x:999:\n' >"$folder/new/etc/group"
    printf 'nameserver 127.0.0.1\n' >"$folder/new/etc/resolv.conf" # without one, the name server of Podman does not start
    mkdir "$folder/bin"
    cat >"$folder/bin/$program" <<'DAEMON'
#!/usr/bin/env bash
# Run the engine with the files of its release, and with the processes, devices and folders for tests of this machine.
set -euo pipefail
exec unshare --mount --propagation=slave bash -c '
    root=$1 work=$2; shift 2
    mount --bind "$root" "$root"
    for each in /proc /sys /dev /tmp /run "$work"; do mkdir -p "$root$each"; mount --rbind "$each" "$root$each"; done
    cd "$root"
    pivot_root . before # with chroot, commands in containers would see the files of this machine
    export PATH=/usr/sbin:/usr/bin:/sbin:/bin
    busybox umount -l /before
    exec "$@"' engine "$(dirname "$0")/../root" "$ZUN_ENGINE_WORK" "$(basename "$0")" "$@"
DAEMON
    chmod +x "$folder/bin/$program"
    mv "$folder/new" "$folder/root"
}

# podman COMMAND...: like beside, with Podman. Its files are in a folder of its own, which goes with it.
podman_beside() {
    local folder daemon
    ip link set lo up
    folder=$(mktemp -d /tmp/zun-engine.XXXXXX)
    export PODMAN_HOST=unix://$folder/podman.sock CONTAINERS_CONF=$folder/containers.conf PODMAN_IGNORE_CGROUPSV1_WARNING=1
    # Without systemd: control groups by the runtime itself, and events in a file.
    printf '%s\n' '[engine]' 'cgroup_manager="cgroupfs"' 'events_logger="file"' 'lock_type="file"' '[network]' 'firewall_driver="iptables"' \
        >"$folder/containers.conf"
    # Networks of an engine of before would still have their addresses, and their names at the name server.
    mkdir -p "$folder/data" /run/containers
    mount -t tmpfs engine /run/containers
    # On the disk of a machine that is a container itself, the kernel would refuse one overlay over another.
    mount -t tmpfs engine "$folder/data"
    # shellcheck disable=SC2086 # several options
    podman --root "$folder/data" --runroot "$folder/run" --tmpdir "$folder/tmp" ${ZUN_ENGINE_OPTIONS:---storage-driver=overlay} \
        --network-config-dir "$folder/networks" system service --time=0 "$PODMAN_HOST" >"$folder/log" 2>&1 &
    daemon=$!
    # shellcheck disable=SC2064 # these values
    trap "kill $daemon; wait $daemon || true; umount --lazy '$folder/data'; rm -rf '$folder' 2>/dev/null || true" EXIT
    wait_until 30 curl -sf --unix-socket "$folder/podman.sock" http://d/_ping >/dev/null || { tail -20 "$folder/log" >&2; die "Podman did not start."; }
    say "$(podman --version)"
    "$@"
}

# have SUITE: fetch its packages, if they are missing.
have() {
    [ -d "$RUN_DIR/engines/$1/root" ] || { say "fetching the packages of $1"; fetch "$1" "$RUN_DIR/engines/$1"; }
}

# overlays FOLDER: can file systems be laid over one another in FOLDER? Not where that is such a file system itself.
overlays() {
    mkdir "$1"/{lower,upper,work,merged}
    mount -t overlay -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work" overlay "$1/merged" 2>/dev/null &&
        umount "$1/merged"
}

# beside COMMAND...: start the daemon, run COMMAND, end the daemon. Runs in its own network, except with "host".
beside() {
    local folder daemon copies options=(--ip6tables=false)
    mount --make-rshared / # the daemon, in a namespace below, shall see what COMMAND mounts
    if [ "${ZUN_ENGINE_NETWORK:-}" = host ]; then
        options+=(--bridge=none --iptables=false --ip-forward=false)
    else
        ip link set lo up
    fi
    folder=$(mktemp -d /tmp/zun-engine.XXXXXX)
    export DOCKER_HOST=unix://$folder/docker.sock
    echo '{}' >"$folder/daemon.json"
    # The engine copies whole images where it cannot lay them over one another: that works, but is slow.
    if [[ " ${ZUN_ENGINE_OPTIONS:-}" != *" --storage-driver"* ]] && ! overlays "$folder"; then
        if [[ "${ZUN_ENGINE_OPTIONS:-}" == *containerd-snapshotter=true* ]]; then copies=native; else copies=vfs; fi
        options+=(--storage-driver=$copies)
    fi
    # shellcheck disable=SC2086 # several options
    dockerd --config-file="$folder/daemon.json" --data-root="$folder/data" --exec-root="$folder/docker" --pidfile="$folder/pid" --host="$DOCKER_HOST" \
        "${options[@]}" ${ZUN_ENGINE_OPTIONS:-} >"$folder/log" 2>&1 &
    daemon=$!
    # shellcheck disable=SC2064 # these values
    trap "kill $daemon; wait $daemon || true; rm -rf '$folder' 2>/dev/null || true" EXIT
    wait_until 30 docker version >/dev/null 2>&1 || { tail -20 "$folder/log" >&2; die "Docker did not start."; }
    say "$(docker version --format '{{range .Server.Components}}{{.Name}} {{.Version}}, {{end}}')$(
        docker info --format '{{.Driver}}, default runtime {{.DefaultRuntime}}, kernel {{.KernelVersion}}, control groups {{.CgroupVersion}}')"
    "$@"
}

case "${1:-}" in
    "" | -h | --help) usage; exit 2 ;;
    beside | podman_beside) "$@" ;;
    fetch)
        shift
        is_root || die "tools/engine.sh needs root."
        for suite in "$@"; do have "$suite"; done
        ;;
    *)
        [ $# -ge 2 ] || { usage >&2; exit 2; }
        is_root || die "tools/engine.sh needs root."
        suite=$1
        shift
        [[ $suite =~ ^[a-z][a-z-]*$ ]] || die "SUITE must be the name of a release of Debian, got $suite."
        have "$suite"
        export PATH=$RUN_DIR/engines/$suite/bin:$PATH ZUN_ENGINE_WORK=$ROOT
        apart=(unshare --mount --propagation=slave)
        [ "${ZUN_ENGINE_NETWORK:-}" = host ] || apart+=(--net)
        beside=beside
        [[ $suite != *-podman ]] || beside=podman_beside
        exec "${apart[@]}" "$ROOT/tools/engine.sh" $beside "$@"
        ;;
esac
