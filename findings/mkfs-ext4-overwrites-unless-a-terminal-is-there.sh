#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mkfs.ext4 asks "Proceed anyway?" before it overwrites a file system, so "-F" looks like the option that a program must
# leave out to be safe. It asks only if input and output are terminals. In a script, a unit of systemd or a container it
# looks for no file system at all, says nothing and ends with status 0, without "-F". mkfs.xfs refuses everywhere.
#
# Versions: e2fsprogs 1.47.0-2+b2 and xfsprogs 6.1.0-1 of Debian 12. Needs Debian 12 and its archive; installs nothing
# outside a temporary folder.
#
# Output seen:
#   e2fsprogs 1.47.0: status 0, label kept -> new, words: none
#   xfsprogs 6.1.0:   status 1, label kept -> kept, words: mkfs.xfs: disk appears to contain an existing filesystem (ext4).
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
(cd debs && apt-get "${options[@]}" -qq download e2fsprogs=1.47.0-2+b2 libext2fs2=1.47.0-2+b2 libcom-err2=1.47.0-2+b2 \
    xfsprogs=6.1.0-1 libinih1 liburcu8)
for deb in debs/*.deb; do dpkg --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C root; done
export LD_LIBRARY_PATH=$folder/root/lib/x86_64-linux-gnu:$folder/root/usr/lib/x86_64-linux-gnu
PATH=$folder/root/sbin:$folder/root/usr/sbin:$PATH

label() { blkid -p -o value -s LABEL disk; }
over() {
    local status=0 before
    rm -f disk && truncate -s 400M disk && mkfs.ext4 -q -L kept disk </dev/null
    before=$(label)
    "$@" disk </dev/null >words 2>&1 || status=$?
    echo "status $status, label $before -> $(label), words: $(head -1 words | grep . || echo none)"
}
ext4=$(over mkfs.ext4 -q -L new) xfs=$(over mkfs.xfs -q -L new)
echo "e2fsprogs $(mke2fs -V 2>&1 | sed -n 's/^mke2fs \([^ ]*\).*/\1/p'): $ext4"
echo "xfsprogs $(mkfs.xfs -V | sed 's/.* //'): $xfs"
[ "$ext4" = "status 0, label kept -> new, words: none" ]
[ "$xfs" = "status 1, label kept -> kept, words: mkfs.xfs: disk appears to contain an existing filesystem (ext4)." ]
