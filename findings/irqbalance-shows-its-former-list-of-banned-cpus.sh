#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# irqbalance 1.9.2 answers "setup" on its socket with the CPUs that were banned before the last "settings cpus", until
# its next interval (10 s by default). A program that reads back what it has written takes it for refused. irqbalance(1)
# describes both words and no delay. A new list also replaces the list of its own configuration.
#
# Needs Debian 12, root, two CPUs at least and no other irqbalance; installs nothing outside a temporary folder. The CPUs
# of the machine's interrupts are as before in the end.
#
# Output seen:
#   irqbalance version 1.9.2
#   at once: BANNED 00000000, after the next interval: BANNED 00000002
set -euo pipefail
folder=$(mktemp -d)
daemon=
cleanup() {
    [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } 2>/dev/null || true
    while read -r file cpus; do echo "$cpus" >"$file" || true; done <"$folder/before" 2>/dev/null || true
    rm -rf "$folder"
}
trap cleanup EXIT
cd "$folder"
for file in /proc/irq/[0-9]*/smp_affinity_list; do echo "$file $(cat "$file")"; done >before
apt-get -qq -o APT::Sandbox::User=root download irqbalance=1.9.2-1 libnl-3-200 libnl-genl-3-200 libnuma1 libcap-ng0
for deb in *.deb; do dpkg -x "$deb" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu:$folder/root/lib/x86_64-linux-gnu
root/usr/sbin/irqbalance --version || true  # its status is 1
# Its socket is in /run/irqbalance: in a /run of its own nothing of the machine is touched.
export PROGRAM=$folder/root/usr/sbin/irqbalance
unshare -m bash -c 'mount -t tmpfs none /run && mkdir /run/irqbalance && exec "$PROGRAM" --foreground --interval=3' >log 2>&1 &
daemon=$!
cat >ask.py <<'P'
import os, socket, struct, sys, time
name, words = f"/proc/{sys.argv[1]}/root/run/irqbalance/irqbalance{sys.argv[1]}.sock", sys.argv[2]
deadline = time.monotonic() + 30
while not os.path.exists(name) and time.monotonic() < deadline:
    time.sleep(0.1)
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
    connection.connect(name)
    who = struct.pack("3i", os.getpid(), os.getuid(), os.getgid())
    connection.sendmsg([words.encode()], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, who)])
    connection.shutdown(socket.SHUT_WR)
    while chunk := connection.recv(65536):
        print(chunk.decode(), end="")
P
banned() { python3 ask.py "$daemon" setup | grep -o 'BANNED [0-9a-f,]*'; }
before=$(banned)
python3 ask.py "$daemon" "settings cpus 1"
at_once=$(banned) later=$(banned)
for _ in $(seq 100); do
    [ "$later" = "$before" ] || break
    later=$(banned)
done
echo "at once: $at_once, after the next interval: $later"
[ "$at_once" = "$before" ]
[ "$((16#${later##* }))" = 2 ]
