#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# runc starts a container inside the container's own memory limit, and what it needs there varies by chance. A reader
# would guess that a limit either works or not, and that 6 MiB, which Docker calls the least, works. With runc 1.1.15 of
# Debian 13 (built with Go 1.24) some of 60 equal starts of one small program fail at 6 MiB, and none at 16. With runc
# 1.1.5 of Debian 12 (Go 1.19) none fails at 6.
#
# Needs root, apt of any Debian and its archive; installs nothing outside a temporary folder.
#
# Output seen:
#   runc version 1.1.5+ds1, 6 MiB: 60 of 60 ran
#   runc version 1.1.15+ds1, 6 MiB: 34 of 60 ran (another number in each run)
#       1 container init was OOM-killed
#      24 unable to set memory limit
#   runc version 1.1.15+ds1, 16 MiB: 60 of 60 ran
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT
uri=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -1)

# root SUITE PACKAGE=VERSION...: unpack the packages of a release into $folder/SUITE.
root() {
    local suite=$1 deb options
    shift
    mkdir -p "$folder/$suite"/{lists/partial,cache/archives/partial,debs} "$folder/$suite/root"/{usr/bin,usr/sbin,usr/lib,usr/lib64}
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$uri" "$suite" >"$folder/$suite/list"
    options=(-o Dir::Etc::sourcelist="$folder/$suite/list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/$suite/lists"
        -o Dir::Cache="$folder/$suite/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${options[@]}" -qq --error-on=any update
    (cd "$folder/$suite/debs" && apt-get "${options[@]}" -qq download "$@" libc6 libseccomp2 busybox-static)
    for deb in bin sbin lib lib64; do ln -s "usr/$deb" "$folder/$suite/root/$deb"; done
    for deb in "$folder/$suite"/debs/*.deb; do dpkg --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$folder/$suite/root"; done
    mkdir -p "$folder/$suite/root"/{proc,sys,dev,run,tmp,before,bundle/rootfs/bin,bundle/rootfs/proc}
    cp "$folder/$suite/root/usr/bin/busybox" "$folder/$suite/root/bundle/rootfs/bin/echo"
}

# starts SUITE MIB: run 60 containers one after the other, and print the version and what each says.
starts() {
    cat >"$folder/$1/root/bundle/edit.sed" <<TEXT
s/"terminal": true/"terminal": false/
s/"sh"/"\/bin\/echo", "ran"/
s/"resources": {/"resources": { "memory": { "limit": $(($2 << 20)) },/
TEXT
    unshare --mount --propagation=private bash -c '
        cd "$1/root"; mount --bind . "$PWD"; cd "$PWD"
        for each in proc sys dev; do mount --rbind /$each $each; done
        mount -t tmpfs run run
        pivot_root . before
        export PATH=/usr/sbin:/usr/bin
        busybox umount -l /before
        busybox sh -c "
            cd /bundle
            busybox rm -f config.json
            runc --version | busybox head -1
            runc spec
            busybox sed -i -f edit.sed config.json
            for number in \$(busybox seq 60); do runc run finding-$2-$$-\$number </dev/null 2>&1; done
        "' starts "$folder/$1" "$2"
}
told() {
    echo "$(head -1 "$folder/$1"), $2 MiB: $(grep -c '^ran' "$folder/$1") of 60 ran"
    sed -n -E 's/.*(unable to set memory limit|cannot start a [a-z ]*|container init was [A-Za-z-]*).*/\1/p' "$folder/$1" | sort | uniq -c
}

root bookworm runc=1.1.5+ds1-1+deb12u1
root trixie runc=1.1.15+ds1-2+b4
starts bookworm 6 >"$folder/old" || true
starts trixie 6 >"$folder/new" || true
starts trixie 16 >"$folder/more" || true
told old 6
told new 6
told more 16
[ "$(grep -c '^ran' "$folder/old")" = 60 ] && [ "$(grep -c '^ran' "$folder/more")" = 60 ]
[ "$(grep -c '^ran' "$folder/new")" -lt 60 ] && [ "$(grep -c '^ran' "$folder/new")" -gt 0 ]
