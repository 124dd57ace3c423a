#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# blkid -p of util-linux 2.41 has the status of an empty device (2) for a device with two signatures and for one whose
# ext4 has a wrong checksum. blkid(8) promises 8 for "ambivalent low-level probing result", and 2.38 keeps the promise
# for two signatures. Whoever formats what blkid calls empty loses data. wipefs lists the signatures in both releases.
#
# Needs Debian 12 (its own util-linux 2.38.1, e2fsprogs) and Debian's archive; installs nothing outside a temporary folder.
#
# Output seen:
#   blkid from util-linux 2.38.1:  zeros 2, two signatures 8, wrong checksum 0
#   blkid from util-linux 2.41.5:  zeros 2, two signatures 2, wrong checksum 2
#   wipefs of both lists:          ext4 and cramfs; ext4
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
uri=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -1)
mkdir -p lists/partial cache/archives/partial debs root
printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s trixie main\n' "$uri" >list
options=(-o Dir::Etc::sourcelist="$folder/list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists"
    -o Dir::Cache="$folder/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none)
apt-get "${options[@]}" -qq update
version=2.41.5-0+deb13u1
(cd debs && apt-get "${options[@]}" -qq download util-linux=$version libblkid1=$version libsmartcols1=$version \
    libuuid1=$version libc6 libtinfo6)
for deb in debs/*.deb; do dpkg --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C root; done
later() {
    local program=$1; shift
    root/usr/lib64/ld-linux-x86-64.so.2 --library-path root/usr/lib/x86_64-linux-gnu "root/usr/sbin/$program" "$@"
}
[ -e root/usr/sbin/blkid ]

truncate -s 64M zeros two sum
mkfs.ext4 -q -F two
# The superblock of a cramfs: magic 0x28cd3d45, a size, "Compressed ROMFS".
printf '\x45\x3d\xcd\x28\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00Compressed ROMFS' |
    dd of=two conv=notrunc status=none
mkfs.ext4 -q -F -O metadata_csum sum
printf '\xde\xad\xbe\xef' | dd of=sum bs=1 seek=$((1024 + 0x3fc)) conv=notrunc status=none

statuses() {
    local each status told=""
    for each in zeros two sum; do
        status=0
        "$@" -p "$each" >out 2>&1 || status=$?
        told+="$each=$status "
    done
    echo "$told"
}
listed() { for each in two sum; do "$@" -n -i -O TYPE "$each" | tr -s ' \n' ' '; echo -n '; '; done; }
now=$(statuses blkid) then=$(statuses later blkid)
echo "$(blkid --version): $now"
echo "$(later blkid --version): $then"
echo "wipefs: $(listed wipefs) | $(listed later wipefs)"
[ "$now" = "zeros=2 two=8 sum=0 " ]
[ "$then" = "zeros=2 two=2 sum=2 " ]
[ "$(listed wipefs)" = "ext4 cramfs ; ext4 ; " ] && [ "$(listed later wipefs)" = "ext4 cramfs ; ext4 ; " ]
