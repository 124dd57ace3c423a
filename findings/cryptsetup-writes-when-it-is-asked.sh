#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# "cryptsetup isLuks" answers a question, so a guess is that it only reads. For LUKS2 it writes: if the first header is
# gone and the second one, 16 KiB further on, is whole, the question brings the first one back. luksDump does the same.
# Whoever asks a disk in doubt before a copy is made has changed the disk. And zeros over the first sectors of a disk do
# not make it another disk: the next question makes it LUKS again. blkid and wipefs --no-act only read.
#
# Version: cryptsetup 2.6.1 of Debian 12. Needs Debian 12 and its archive; installs nothing outside a temporary folder.
#
# Output seen:
#   cryptsetup 2.6.1 flags: UDEV BLKID KEYRING KERNEL_CAPI
#   blkid:    the disk is as before, the answer 1 lines
#   isLuks:   status 0, the disk was written to and begins with LUKS
#   luksDump: status 0, the disk was written to and begins with LUKS
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
uri=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -1)
mkdir -p lists/partial cache/archives/partial debs root
printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s bookworm main\n' "$uri" >list
options=(-o Dir::Etc::sourcelist="$folder/list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists"
    -o Dir::Cache="$folder/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none)
apt-get "${options[@]}" -qq update
version=2:2.6.1-4~deb12u2
(cd debs && apt-get "${options[@]}" -qq download cryptsetup-bin=$version libcryptsetup12=$version libpopt0 \
    libdevmapper1.02.1 libjson-c5 libargon2-1)
for deb in debs/*.deb; do dpkg --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C root; done
cryptsetup() {
    LD_LIBRARY_PATH=root/lib/x86_64-linux-gnu:root/usr/lib/x86_64-linux-gnu root/sbin/cryptsetup "$@"
}
PATH=$PATH:/usr/sbin:/sbin

truncate -s 32M whole
printf 'any' | cryptsetup luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 -q whole -
asked() {
    local status=0 before after
    cp whole disk
    dd if=/dev/zero of=disk bs=16K count=1 conv=notrunc status=none # the first header
    before=$(sha256sum <disk)
    "$@" disk >answer 2>&1 || status=$?
    after=$(sha256sum <disk)
    if [ "$before" = "$after" ]; then
        echo "the disk is as before, the answer $(grep -c . answer) lines"
    else
        echo "status $status, the disk was written to and begins with $(head -c 4 disk)"
    fi
}
cryptsetup --version
blkid=$(asked blkid -p -o value -s TYPE) question=$(asked cryptsetup isLuks) dump=$(asked cryptsetup luksDump)
printf '%s\n' "blkid:    $blkid" "isLuks:   $question" "luksDump: $dump"
[[ "$blkid" == "the disk is as before"* ]]
[ "$question" = "status 0, the disk was written to and begins with LUKS" ]
[ "$dump" = "status 0, the disk was written to and begins with LUKS" ]
