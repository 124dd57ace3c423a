#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# POST /libpod/containers/NAME/stop of a container that its restart policy starts again and again answers 304, "already
# stopped", and the loop goes on: between two attempts the state is "stopped". Docker's stop ends such a loop. What ends
# it here is another policy: POST .../update?restartPolicy=no.
#
# Needs root, curl, Debian's apt and Debian's archive; installs nothing outside a temporary folder.
#
# Output seen:
#   podman version 5.4.2
#   stop: 304, and the loop goes on
#   update: 201, and the loop ends
set -euo pipefail
folder=$(mktemp -d)
trap 'cleanup' EXIT
service=
cleanup() {
    [ -z "$service" ] || kill "$service" || true
    run podman rm --force --time 0 --all >/dev/null 2>&1 || true
    rm -rf --one-file-system "$folder"
}
cd "$folder"
uri=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -1)
mkdir -p lists/partial cache/archives/partial root/{proc,sys,dev,tmp,run,var/lib,var/tmp,etc/containers} root/usr/{bin,sbin,lib,lib64}
for name in bin sbin lib lib64; do ln -s "usr/$name" "root/$name"; done
printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s trixie main\n' "$uri" >list
touch status
options=(-o Dir::Etc::sourcelist="$folder/list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists"
    -o Dir::Cache="$folder/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none)
apt-get "${options[@]}" -qq update
apt-get "${options[@]}" -o Dir::State::status="$folder/status" -qq -y --no-install-recommends --download-only install \
    podman=5.4.2+ds1-2+b2 crun=1.21-1 conmon=2.1.12-4 netavark busybox-static golang-github-containers-common
for deb in cache/archives/*.deb; do dpkg --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C root; done
printf '[engine]\ncgroup_manager="cgroupfs"\nevents_logger="file"\nlock_type="file"\n' >root/etc/containers/containers.conf
mkdir -p root/small/bin root/small/{proc,sys,dev,tmp,run,etc}
cp root/usr/bin/busybox root/small/bin/sh
# Podman in a root of its own: one shell there runs all commands, so its mounts end with it.
run() {
    PODMAN_IGNORE_CGROUPSV1_WARNING=1 unshare --mount --net --propagation=slave bash -c '
        mount --bind root root
        for each in proc sys dev; do mount --rbind "/$each" "root/$each"; done
        exec chroot root "$@"' run "$@"
}
run podman --version
run podman run --detach --name loop --net none --restart always --rootfs /small sh -c "exit 1" >/dev/null
run podman system service --time=0 unix:///tmp/socket >/dev/null 2>&1 &
service=$!
url=http://d/v5.0.0/libpod/containers/loop
ask() { curl -s --unix-socket root/tmp/socket "$@"; }
restarts() { ask $url/json | grep -o '"RestartCount":[0-9]*' | cut -d : -f 2; }
more_than() { for try in $(seq 100); do [ "$(restarts)" -le "$1" ] || return 0; sleep 0.1; done; return 1; }
for try in $(seq 100); do [ ! -S root/tmp/socket ] || break; sleep 0.1; done
more_than 0
stop="" update=""
for try in $(seq 20); do # a stop in the short time of a process would end the loop: ask between two
    status=$(ask -o /dev/null -w '%{http_code}' -X POST "$url/stop?timeout=0")
    [ "$status" != 304 ] || break
done
! more_than $(($(restarts) + 2)) || stop="stop: $status, and the loop goes on"
status=$(ask -o /dev/null -w '%{http_code}' -X POST -H 'Content-Type: application/json' -d '{}' "$url/update?restartPolicy=no")
sleep 2
more_than "$(restarts)" || update="update: $status, and the loop ends"
echo "$stop"
echo "$update"
[ "$stop $update" = "stop: 304, and the loop goes on update: 201, and the loop ends" ]
