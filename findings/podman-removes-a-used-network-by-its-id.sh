#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# "podman network rm" refuses to remove a network that containers use if the network is named by its name. Named by its
# id, the network goes, while the container runs in it. The API does the same. One would guess that a name and an id are
# two words for one thing, as they are for Docker.
#
# Needs root, Debian's apt and Debian's archive; installs nothing outside a temporary folder.
#
# Output seen:
#   podman version 5.4.2
#   by name: refused
#   by id: removed
#   it is gone
set -euo pipefail
folder=$(mktemp -d)
trap 'cleanup' EXIT
cleanup() {
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
printf '[engine]\ncgroup_manager="cgroupfs"\nevents_logger="file"\nlock_type="file"\n[network]\nfirewall_driver="none"\n' >root/etc/containers/containers.conf
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
# One shell in the root, so that all commands see one network.
run busybox sh -ec '
    podman network create --disable-dns other >/dev/null
    podman run --detach --name one --network other --rootfs /small sh -c "while :; do sleep 1; done" >/dev/null
    [ "$(podman inspect --format "{{.State.Running}}" one)" = true ]
    remove() { if podman network rm "$1" >/dev/null 2>&1; then echo removed; else echo refused; fi; }
    id=$(podman network inspect --format "{{.ID}}" other)
    echo "by name: $(remove other)"
    echo "by id: $(remove "$id")"
    podman network exists other || echo "it is gone"' | tee seen
[ "$(cat seen)" = $'by name: refused\nby id: removed\nit is gone' ]
