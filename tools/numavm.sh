#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# numavm.sh - a real multi-NUMA Linux machine by emulation (QEMU + Debian).
# tools/numavm-test.sh runs our tests in one.
#
#   numavm.sh DIR build            make kernel, initrd and disk image under DIR
#   numavm.sh DIR save             boot once and keep the running state: from then
#                                  on `boot` resumes it in seconds, always the same
#   numavm.sh DIR boot             start the guest, wait until it takes commands
#   numavm.sh DIR exec CMD [ARG..] run CMD as root in the guest (one argument:
#                                  a shell line); stdin, stdout, rc pass through
#   numavm.sh DIR push SRC DST     copy a file or folder into the guest
#   numavm.sh DIR status | halt | destroy
#
# Needs (Debian/Ubuntu packages): debootstrap qemu-system-x86 e2fsprogs
# openssh-client python3.  `build` needs root; the other verbs do not.
# Nothing outside DIR is written; the guest reaches out by user-mode network
# only, and is reached on 127.0.0.1 only.
#
# Settings (environment), build:
#   NUMAVM_MIRROR   package mirror (the one this host's apt uses)
#   NUMAVM_SUITE    bookworm (default) | trixie
#   NUMAVM_DISK     image size (6G, sparse)           NUMAVM_EXTRA  more packages
#   NUMAVM_CA       CA bundle to trust (host's ca-certificates.crt if present)
# boot:
#   NUMAVM_ACCEL    tcg (default) | kvm
#   NUMAVM_LAYOUT   4node (default: 4 nodes x 4 CPUs x 2 GiB, 2 sockets, SMT 2,
#                          16 huge pages of 2 MiB on each node)
#                   4die   (the same with one L3 per node)
#                   4pci   (4node on a PCIe machine, with a fifth node without CPUs,
#                           HMAT, and devices near each node; it cannot be saved)
#                   odd    (5 nodes: a memory-less node, a CPU-less node,
#                           unequal sizes, asymmetric-looking distances)
#   NUMAVM_QEMU     more qemu arguments
#   NUMAVM_KERNEL   more words for the kernel, at a boot from scratch, such as
#                   systemd.unified_cgroup_hierarchy=0 for version 1 of control
#                   groups (bookworm)
#   NUMAVM_FRESH    1: throw away disk changes at halt (default 0; a resumed
#                   guest always does)
#   NUMAVM_COLD     1: boot from scratch though a saved state exists
#   NUMAVM_SHARE    colon-separated host folders, seen read-only in the guest at
#                   the same path (9p); NUMAVM_SHARE_RW: writable; 4 in all
#   NUMAVM_TIMEOUT  seconds to wait for login (1200)
set -euo pipefail

# the first Debian mirror that this host's apt is set up with
default_mirror() {
    grep -hsE '^(deb|URIs:) ' /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources \
        | grep -oE 'https?://[^ ]+/(debian|ubuntu)/?( |$)' | head -1
}
die() { echo "numavm: $*" >&2; exit 1; }
[ $# -ge 2 ] || { sed -n '/^# numavm.sh/,/^set /{s/^# \{0,1\}//;/^set /!p}' "$0" >&2; exit 2; }
trap 'rm -rf "${img:-}"' EXIT; img=
HERE=$PWD; mkdir -p "$1"; DIR=$(cd "$1" && pwd -P); VERB=$2; shift 2
cd "$DIR"

now() { date +%s.%N; }
note() { # note NAME START: append an elapsed time
    printf '%s %.1f\n' "$1" "$(echo "$(now) $2" | awk '{print $1-$2}')" | tee -a timings.txt >&2
}

# ---------------------------------------------------------------- build
build() {
    [ "$(id -u)" = 0 ] || die "build needs root (debootstrap)"
    for c in debootstrap mke2fs ssh-keygen qemu-system-x86_64; do
        command -v $c >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v $c >/dev/null \
            || die "missing $c: apt-get install debootstrap e2fsprogs openssh-client qemu-system-x86"
    done
    export PATH=$PATH:/usr/sbin:/sbin
    local t0; t0=$(now)
    local suite=${NUMAVM_SUITE:-bookworm} mirror=${NUMAVM_MIRROR:-$(default_mirror)}
    local root=$DIR/rootfs
    rm -rf disk.* state.* vmlinuz initrd.img img.????
    [ -f rootfs.done ] || rm -rf "$root"        # a half-done build resumes at the image
    local pk=systemd-sysv,dbus,udev,kmod,openssh-server,iproute2,iputils-ping,procps
    pk=$pk,ca-certificates,curl,tar,xz-utils,busybox-static,numactl,util-linux,hwloc-nox
    pk=$pk,docker.io,iptables,python3,python3-venv,python3-pip,python3-dev,gcc,libc6-dev
    pk=$pk,initramfs-tools,zstd,git,stress-ng,pciutils${NUMAVM_EXTRA:+,$NUMAVM_EXTRA}
    [ "$suite" = bookworm ] || pk=$pk,docker-cli # apart since Debian 13
    local t; t=$(now)
    if [ ! -f rootfs.done ]; then
    debootstrap --variant=minbase --include="$pk" "$suite" "$root" "$mirror" > debootstrap.log 2>&1 \
        || { tail -5 debootstrap.log >&2; die "debootstrap failed (debootstrap.log)"; }
    note build.debootstrap "$t"

    # services must not start in the chroot; a small initrd is quick to unpack
    t=$(now)
    printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"; chmod 755 "$root/usr/sbin/policy-rc.d"
    mkdir -p "$root/etc/initramfs-tools/conf.d" "$root/etc/initramfs-tools/hooks"
    printf 'MODULES=list\nCOMPRESS=zstd\n' > "$root/etc/initramfs-tools/conf.d/numavm"
    cat > "$root/etc/initramfs-tools/hooks/numavm" <<'E'
#!/bin/sh
[ "$1" = prereqs ] && exit 0
. /usr/share/initramfs-tools/hook-functions
manual_add_modules virtio_pci virtio_blk ext4
for m in virtio_pci virtio_blk ext4; do echo $m >> "$DESTDIR/conf/modules"; done
E
    chmod 755 "$root/etc/initramfs-tools/hooks/numavm"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    DEBIAN_FRONTEND=noninteractive chroot "$root" sh -c \
        'apt-get update && apt-get install -y --no-install-recommends linux-image-amd64 && apt-get clean' \
        > kernel.log 2>&1 || { tail -5 kernel.log >&2; die "kernel install failed (kernel.log)"; }
    note build.kernel "$t"
    : > rootfs.done
    fi

    rm -f "$root/usr/sbin/policy-rc.d"
    echo numavm > "$root/etc/hostname"
    printf '127.0.0.1 localhost numavm\n' > "$root/etc/hosts"
    printf '/dev/vda / ext4 defaults,noatime 0 0\n' > "$root/etc/fstab"
    printf 'nameserver 10.0.2.3\n' > "$root/etc/resolv.conf"
    # emulated on a busy host, everything takes its time, and the journal answers its watchdog late
    mkdir -p "$root"/etc/systemd/{system.conf.d,system/systemd-journald.service.d,system/systemd-udevd.service.d}
    printf '[Manager]\nDefaultTimeoutStartSec=900\nDefaultDeviceTimeoutSec=900\n' > "$root/etc/systemd/system.conf.d/numavm.conf"
    for each in journald udevd; do
        printf '[Service]\nWatchdogSec=0\n' > "$root/etc/systemd/system/systemd-$each.service.d/numavm.conf"
    done
    cat > "$root/etc/systemd/system/usernet.service" <<'E'
[Unit]
DefaultDependencies=no
After=systemd-udevd.service systemd-modules-load.service
Before=network.target network-online.target ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'modprobe virtio_net; for i in $(seq 300); do [ -e /sys/class/net/eth0 ] && break; sleep 0.2; done; ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; ip route add default via 10.0.2.2'
[Install]
WantedBy=multi-user.target
E
    chroot "$root" systemctl enable usernet ssh docker >/dev/null 2>&1
    chroot "$root" systemctl mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service \
        fstrim.timer dpkg-db-backup.timer systemd-networkd-wait-online.service systemd-timesyncd.service \
        getty@tty1.service systemd-update-utmp.service systemd-logind.service systemd-networkd.service \
        modprobe@drm.service kmod-static-nodes.service systemd-journal-flush.service >/dev/null 2>&1 || true
    chroot "$root" passwd -d root >/dev/null
    rm -f "$root"/etc/machine-id; : > "$root/etc/machine-id"
    # ssh by key only; host key and user key made here, kept in DIR
    rm -f id_ed25519 id_ed25519.pub "$root"/etc/ssh/ssh_host_*
    ssh-keygen -q -t ed25519 -N '' -C numavm -f id_ed25519
    ssh-keygen -q -t ed25519 -N '' -C numavm -f "$root/etc/ssh/ssh_host_ed25519_key"
    mkdir -p "$root/root/.ssh"; chmod 700 "$root/root/.ssh"; cp id_ed25519.pub "$root/root/.ssh/authorized_keys"
    chmod 600 "$root/root/.ssh/authorized_keys"
    echo "numavm $(cut -d' ' -f1,2 "$root/etc/ssh/ssh_host_ed25519_key.pub")" > known_hosts
    printf 'HostKey /etc/ssh/ssh_host_ed25519_key\nUsePAM no\nUseDNS no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nPrintMotd no\nAcceptEnv *\nLoginGraceTime 0\nMaxStartups 100\nMaxSessions 100\n' \
        > "$root/etc/ssh/sshd_config.d/numavm.conf"
    # trust what this host trusts (a registry behind an inspecting proxy)
    local ca=${NUMAVM_CA:-/etc/ssl/certs/ca-certificates.crt}
    if [ -f "$ca" ]; then cp "$ca" "$root/etc/ssl/certs/ca-certificates.crt"; fi
    printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\ntimeout = 180\n' > "$root/etc/pip.conf"

    # networks of containers are none of our business and take most of the time of a start
    mkdir -p "$root/etc/docker"
    printf '{"bridge": "none", "iptables": false, "ip6tables": false, "log-level": "warn"}\n' > "$root/etc/docker/daemon.json"

    # a container image without a registry: busybox + python3, 'numaprobe'
    img=$(mktemp -d -p "$DIR" img.XXXX)
    mkdir -p "$img"/{bin,usr/bin,usr/lib,lib64,tmp,proc,sys,dev,etc,root}
    cp "$root/bin/busybox" "$img/bin/busybox"
    chroot "$root" busybox --list | while read -r a; do ln -s busybox "$img/bin/$a" 2>/dev/null || true; done
    local py; py=$(readlink "$root/usr/bin/python3")
    cp "$root/usr/bin/$py" "$img/usr/bin/"; ln -s "$py" "$img/usr/bin/python3"
    (cd "$root" && find "usr/lib/$py" -type f -name '*.py' ! -path '*/test/*' ! -path '*/idlelib/*' ! -path '*/lib2to3/*' \
        ! -path '*/config-*' ! -path '*/tkinter/*' ! -path '*/ensurepip/*' ! -path '*/turtle*' -print0 \
        | tar -c --null -T - ; ) | tar -x -C "$img"
    # shellcheck disable=SC2046,SC2012
    chroot "$root" ldd "/usr/bin/$py" $(cd "$root" && ls usr/lib/"$py"/lib-dynload/*.so | sed 's#^#/#') 2>/dev/null \
        | awk '$2=="=>" && $3~/^\// {print $3} $1~/^\// && $1!~/:$/ {print $1}' | sort -u | while read -r l; do
            mkdir -p "$img$(dirname "$l")"; cp -L "$root$l" "$img$l"; done
    mkdir -p "$img/usr/lib/$py/lib-dynload"; cp "$root/usr/lib/$py"/lib-dynload/*.so "$img/usr/lib/$py/lib-dynload/"
    mkdir -p "$root/opt"; tar -C "$img" -cf "$root/opt/numaprobe.tar" .
    rm -rf "$img"; img=
    cat > "$root/usr/local/sbin/numavm-ready" <<'E'
#!/bin/sh
# run after each boot: wait for docker, import the image once
i=0; until docker info >/dev/null 2>&1; do i=$((i+1)); [ $i -gt 120 ] && exit 1; sleep 1; done
docker image inspect numaprobe >/dev/null 2>&1 || docker import /opt/numaprobe.tar numaprobe >/dev/null
E
    chmod 755 "$root/usr/local/sbin/numavm-ready"

    t=$(now)
    # shellcheck disable=SC2012
    cp "$(ls "$root"/boot/vmlinuz-* | sort -V | tail -1)" vmlinuz
    # shellcheck disable=SC2012
    cp "$(ls "$root"/boot/initrd.img-* | sort -V | tail -1)" initrd.img
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin "$root"/boot/initrd.img-*
    truncate -s "${NUMAVM_DISK:-6G}" disk.raw
    mke2fs -q -F -t ext4 -L numavm -E lazy_itable_init=1,lazy_journal_init=1 -d "$root" disk.raw
    rm -rf "$root" rootfs.done
    note build.image "$t"
    note build.total "$t0"
    ls -lsh vmlinuz initrd.img disk.raw >&2
}

# ---------------------------------------------------------------- run
running() { # the pid file's process is there and is a qemu
    [ -f qemu.pid ] && grep -q '^qemu-system' "/proc/$(cat qemu.pid)/comm" 2>/dev/null && kill -0 "$(cat qemu.pid)"
}

SSH() { # the control socket's path is relative to DIR: no length limit to hit
    ssh -F /dev/null -q -i id_ed25519 -p "$(cat port)" \
        -o UserKnownHostsFile=known_hosts -o HostKeyAlias=numavm -o StrictHostKeyChecking=yes \
        -o GlobalKnownHostsFile=/dev/null -o IdentitiesOnly=yes -o BatchMode=yes -o ConnectTimeout=30 \
        -o ServerAliveInterval=30 -o ServerAliveCountMax=20 \
        -o ControlMaster=auto -o ControlPath=ssh.ctl -o ControlPersist=3600 "$@"
}

layout() { # sets SMP, MEM, NUMA, MACHINE, DRIVE, DEVICES and KERNEL (words for the kernel: huge pages by node and others)
    local m=() i j hmat=""
    if [ "${NUMAVM_LAYOUT:-4node}" = 4pci ]; then hmat=yes; fi
    KERNEL=""; MACHINE=pc; DEVICES=(); DRIVE=if=virtio
    node() { # node ID SIZE CPUS INITIATOR
        if [ "$2" != 0 ]; then
            NUMA+=(-object "memory-backend-ram,id=m$1,size=$2"); m=(",memdev=m$1"); else m=(""); fi
        NUMA+=(-numa "node,nodeid=$1${3:+,cpus=$3}${m[0]}${4:+,initiator=$4}")
    }
    dist() { NUMA+=(-numa "dist,src=$1,dst=$2,val=$3"); }
    NUMA=()
    case ${NUMAVM_LAYOUT:-4node} in
    4node|4die|4pci)
        SMP=16,sockets=2,dies=1,cores=4,threads=2; MEM=8G
        if [ "${NUMAVM_LAYOUT:-4node}" = 4die ]; then SMP=16,sockets=2,dies=2,cores=2,threads=2; fi
        KERNEL=hugepages=0:16,1:16,2:16,3:16
        for i in 0 1 2 3; do node $i 2G $((i*4))-$((i*4+3)) "${hmat:+$i}"; done
        for i in 0 1 2 3; do for j in 0 1 2 3; do
            if [ $i = $j ]; then dist $i $j 10
            elif [ $((i/2)) = $((j/2)) ]; then dist $i $j 12; else dist $i $j 32; fi
        done; done
        if [ -n "$hmat" ]; then fifth_node; devices; fi ;;
    odd) # 0: 6 CPUs 3G; 1: 6 CPUs 1G; 2: 4 CPUs, no memory; 3: memory only 2G; 4: memory only 512M
        SMP=16,sockets=2,dies=1,cores=4,threads=2; MEM=6656M
        node 0 3G 0-5; node 1 1G 6-11; node 2 0 12-15; node 3 2G ""; node 4 512M ""
        local d=(10 16 22 28 40  16 10 18 24 40  22 18 10 14 40  28 24 14 10 40  40 40 40 40 10)
        for i in 0 1 2 3 4; do for j in 0 1 2 3 4; do dist $i $j "${d[$((i*5+j))]}"; done; done ;;
    *) die "unknown NUMAVM_LAYOUT" ;;
    esac
}

# Node 4 has memory and no CPUs. By the table of distances node 2 is the nearest, by HMAT node 3 is (its "initiator").
fifth_node() {
    local i j latency
    MEM=8704M
    node 4 512M "" 3
    for i in 0 1 2 3; do
        dist "$i" 4 $((i == 2 ? 14 : 28)); dist 4 "$i" $((i == 2 ? 14 : 28))
        for j in 0 1 2 3 4; do
            latency=$((i == j ? 100 : i/2 == j/2 ? 120 : 320))
            if [ "$j" = 4 ]; then latency=$((i == 3 ? 200 : 500)); fi
            NUMA+=(-numa "hmat-lb,initiator=$i,target=$j,hierarchy=memory,data-type=access-latency,latency=$latency"
                -numa "hmat-lb,initiator=$i,target=$j,hierarchy=memory,data-type=access-bandwidth,bandwidth=$((100000 / latency))M")
        done
    done
    dist 4 4 10
    for i in 0 1 2 3; do NUMA+=(-numa "hmat-cache,node-id=$i,size=64K,level=1,associativity=direct,policy=write-back,line=64"); done
}

# PCI devices with an IOMMU. Bus 20 (node 1): an NVMe card with two virtual functions. Bus 40 (node 2): a switch,
# behind it an NVMe disk and QEMU's teaching device. Bus 60 (node 3): a network card, an NVMe disk, a teaching device,
# and from QEMU 8.0 on a network card with two virtual functions. Bus 80 (node 4): an NVMe disk.
# Bus c0, from QEMU 8.1 on: 256 MiB of CXL memory.
devices() {
    local n known
    known=$(qemu-system-x86_64 -device help; qemu-system-x86_64 -device cxl-type3,help)
    MACHINE=q35,hmat=on; DRIVE=if=none,id=root; DEVICES=(-device virtio-blk-pci,drive=root,bus=pcie.0)
    # the network of the machine itself must be eth0: the modules of the cards are loaded after the boot
    KERNEL="$KERNEL intel_iommu=on modprobe.blacklist=e1000e,igb,igbvf"
    dev() { DEVICES+=(-device "$1"); }
    disk() { # a disk that begins with its own name
        echo "$1" > "$1.raw"; truncate -s 8M "$1.raw"
        DEVICES+=(-drive "file=$1.raw,format=raw,if=none,id=$1,snapshot=on"); }
    port() { dev "pcie-root-port,id=$1,bus=$2,chassis=$3,slot=$3,addr=$4"; }
    net() { DEVICES+=(-netdev "user,id=n$2,restrict=on"); dev "$1,bus=r$2,netdev=n$2,romfile="; }
    for n in 1 2 3 4; do dev "pxb-pcie,id=x$n,bus=pcie.0,bus_nr=$((n*32)),numa_node=$n"; done
    dev intel-iommu
    port r1 x1 1 0
    dev nvme-subsys,id=card,nqn=card
    dev nvme,id=pf,bus=r1,serial=card,subsys=card,sriov_max_vfs=2,sriov_vq_flexible=4,sriov_vi_flexible=2,max_ioqpairs=6,msix_qsize=4
    for n in 1 2 3; do disk "card$n"; done
    dev nvme-ns,drive=card1,bus=pf,nsid=1,shared=on
    for n in 2 3; do dev "nvme-ns,drive=card$n,bus=pf,nsid=$n,shared=on,detached=on"; done
    port r2 x2 2 0
    dev x3130-upstream,id=up,bus=r2
    for n in 0 1; do dev "xio3130-downstream,id=down$n,bus=up,chassis=$((20+n)),slot=$n"; done
    disk disk2; dev nvme,bus=down0,serial=disk2,drive=disk2
    dev edu,bus=down1
    for n in 3 4 5 6; do port r$n x3 $n $((n-3)); done
    net e1000e 3
    disk disk3; dev nvme,bus=r4,serial=disk3,drive=disk3
    dev edu,bus=r5
    port r7 x4 7 0
    disk disk4; dev nvme,bus=r7,serial=disk4,drive=disk4
    case $known in *'"igb"'*) net igb 6 ;; esac
    case $known in *volatile-memdev*)
        MACHINE=$MACHINE,cxl=on,cxl-fmw.0.targets.0=x5,cxl-fmw.0.size=4G
        DEVICES+=(-object memory-backend-ram,id=cxl,size=256M)
        dev pxb-cxl,id=x5,bus=pcie.0,bus_nr=192,numa_node=2
        dev cxl-rp,id=r8,bus=x5,port=0,chassis=8,slot=8
        dev cxl-type3,bus=r8,volatile-memdev=cxl ;;
    esac
}

# What an operator does after a boot: the virtual functions, each with resources and a namespace of its own.
functions() {
    SSH root@127.0.0.1 'modprobe -a e1000e && modprobe -a igb igbvf vfio-pci && python3 -' <<'E'
import ctypes, fcntl, glob, pathlib, struct, time
cards = {each.parent.resolve().name: each.parent for each in pathlib.Path('/sys/bus/pci/devices').glob('*/sriov_numvfs')}
pf = cards.pop('0000:21:00.0')
(name,) = (each.name for each in (pf / 'nvme').iterdir())
def command(opcode, nsid=0, cdw10=0, cdw11=0, data=None):
    area = ctypes.create_string_buffer(data or b'', 4096)
    where, size = (ctypes.addressof(area), 4096) if data else (0, 0)
    order = struct.pack('<BBHIIIQQIIIIIIIIII', opcode, 0, 0, nsid, 0, 0, 0, where, 0, size, cdw10, cdw11, 0, 0, 0, 0, 0, 0)
    with open('/dev/' + name) as device: # NVME_IOCTL_ADMIN_CMD
        status = fcntl.ioctl(device, 0xC0484E41, bytearray(order))
    if status: raise SystemExit(f'nvme command {opcode:#x} {cdw10:#x}: status {status:#x}')
def resources(controller, kind, action, number=0): # Virtualization Management
    command(0x1C, cdw10=controller << 16 | kind << 8 | action, cdw11=number)
for kind in 0, 1: resources(0, kind, 1) # the physical function keeps none of the flexible ones
pathlib.Path('/sys/class/nvme', name, 'reset_controller').write_text('1')
until = time.monotonic() + 120
def wait(ready, what):
    while not ready():
        if time.monotonic() > until: raise SystemExit(what)
        time.sleep(0.2)
state = pathlib.Path('/sys/class/nvme', name, 'state')
wait(lambda: state.read_text() == 'live\n', f'{name} does not come back from its reset')
(pf / 'sriov_drivers_autoprobe').write_text('0')
(pf / 'sriov_numvfs').write_text('2')
for controller in 1, 2:
    for kind, number in (0, 2), (1, 1): resources(controller, kind, 8, number)
    resources(controller, 0, 9) # online
    command(0x15, nsid=controller + 1, data=struct.pack('<HH', 1, controller)) # attach
(pf / 'sriov_drivers_autoprobe').write_text('1')
for function in sorted(pf.glob('virtfn*')):
    pathlib.Path('/sys/bus/pci/drivers/nvme/bind').write_text(function.resolve().name)
edu = '0000:44:00.0' # the teaching device behind the switch is for programs that drive it themselves
pathlib.Path('/sys/bus/pci/devices', edu, 'driver_override').write_text('vfio-pci')
pathlib.Path('/sys/bus/pci/drivers_probe').write_text(edu)
wait(lambda: len(glob.glob('/dev/nvme*n[23]')) == 2, 'the disks of the virtual functions do not come')
for igb in cards.values():
    (igb / 'sriov_numvfs').write_text('2')
    wait(lambda: len(list(igb.glob('virtfn*/net/*'))) == 2, 'the interfaces of the virtual functions do not come')
E
}

QMP() { # QMP save FILE | resume | quit
    python3 - "$@" <<'E'
import json, socket, sys, time
s = socket.socket(socket.AF_UNIX); s.settimeout(600); s.connect('qmp.sock')
f = s.makefile('rw')
def call(name, **args):
    f.write(json.dumps({'execute': name, 'arguments': args}) + '\n'); f.flush()
    while True:
        line = f.readline()
        if not line: sys.exit(0 if name == 'quit' else 'qemu went away')
        r = json.loads(line)
        if 'error' in r: sys.exit(name + ': ' + r['error']['desc'])
        if 'return' in r: return r['return']
f.readline(); call('qmp_capabilities')
verb = sys.argv[1]
if verb == 'save':
    call('stop')
    call('migrate-set-parameters', **{'max-bandwidth': 10 << 30})
    call('migrate', uri="exec:cat > '%s'" % sys.argv[2])
    while True:
        r = call('query-migrate'); st = r.get('status')
        if st == 'completed': break
        if st in ('failed', 'cancelled'): sys.exit('migrate: %s' % r)
        time.sleep(0.5)
elif verb == 'resume':      # the state was taken from a stopped machine
    while call('query-status')['status'] == 'inmigrate': time.sleep(0.2)
    call('cont')
else: call(verb)
E
}

boot() {
    running && die "already running (pid $(cat qemu.pid))"
    [ -f disk.raw ] || die "no image: build first"
    local t0; t0=$(now)
    layout
    local lay=${NUMAVM_LAYOUT:-4node} port share=() spec=() more=() n p accel cpu snap=off what=boot
    local disk=${DISKFILE:-disk.raw} ro
    port=$(python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
    echo "$port" > port
    if [ "${NUMAVM_ACCEL:-tcg}" = kvm ]; then accel=kvm; cpu=host
    else accel=tcg,thread=multi,tb-size=768; cpu=max,vendor=GenuineIntel,family=6,model=85,stepping=7; fi
    if [ "${NUMAVM_FRESH:-0}" = 1 ]; then snap=on; fi
    if [ -f "state.$lay" ] && [ "${NUMAVM_COLD:-0}" != 1 ]; then
        disk=disk.$lay; snap=on; what=resume; more=(-incoming "exec:cat '$DIR/state.$lay'"); fi
    mkdir -p empty
    local IFS=:
    for p in ${NUMAVM_SHARE:-}; do spec+=("ro=$p"); done
    for p in ${NUMAVM_SHARE_RW:-}; do spec+=("rw=$p"); done
    unset IFS
    [ ${#spec[@]} -le 4 ] || die "at most 4 shared folders"
    for n in 0 1 2 3; do          # always 4 devices: a saved state wants the same machine
        p=${spec[$n]:-ro=$DIR/empty}; ro=""
        if [ "${p%%=*}" = ro ]; then ro=,readonly=on; fi
        share+=(-virtfs "local,path=${p#*=},mount_tag=s$n,security_model=none,multidevs=remap$ro")
    done
    rm -f serial.log ssh.ctl qmp.sock qemu.pid
    # udev.event_timeout: udev kills a worker after three minutes, which a module takes to load on a busy host. If that
    # was a module of the kernel's cryptography, Linux 6.12 never tests its algorithm, and checking the signature of
    # any later module waits a minute and fails ("Connection timed out").
    # shellcheck disable=SC2086
    TMPDIR=$DIR setsid -f qemu-system-x86_64 -name numavm -machine $MACHINE,usb=off,vmport=off -accel $accel -cpu $cpu \
        -smp "$SMP" -m "$MEM" "${NUMA[@]}" \
        -kernel vmlinuz -initrd initrd.img \
        -append "root=/dev/vda rw console=ttyS0 quiet net.ifnames=0 mitigations=off nokaslr nowatchdog no_timer_check tsc=unstable audit=0 apparmor=0 rcupdate.rcu_cpu_stall_timeout=300 workqueue.watchdog_thresh=0 random.trust_cpu=on udev.event_timeout=3600 $KERNEL ${NUMAVM_KERNEL:-}" \
        -drive file=$disk,format=raw,$DRIVE,cache=unsafe,snapshot=$snap \
        -netdev "user,id=n0,hostfwd=tcp:127.0.0.1:$port-:22" -device virtio-net-pci,netdev=n0,romfile= \
        -device virtio-rng-pci "${share[@]}" "${DEVICES[@]}" "${more[@]}" ${NUMAVM_QEMU:-} \
        -display none -vga none -serial file:serial.log -monitor none -qmp unix:qmp.sock,server=on,wait=off \
        -pidfile qemu.pid < /dev/null > qemu.err 2>&1
    echo $snap > snap
    for _ in $(seq 100); do [ -S qmp.sock ] && running && break; sleep 0.1; done
    running || { cat qemu.err >&2; rm -f qemu.pid; die "qemu did not start"; }
    if [ $what = resume ]; then QMP resume || die "could not resume"; fi
    local end=$(( $(date +%s) + ${NUMAVM_TIMEOUT:-1200} ))
    until SSH root@127.0.0.1 true < /dev/null 2>/dev/null; do
        running || { tail -5 serial.log >&2; cat qemu.err >&2; die "guest died"; }
        [ "$(date +%s)" -lt $end ] || { tail -5 serial.log >&2; die "no login in ${NUMAVM_TIMEOUT:-1200} s"; }
        sleep 1
    done
    [ $what = boot ] || SSH root@127.0.0.1 "date -s @$(date +%s) >/dev/null" < /dev/null
    note $what.login "$t0"
    for n in "${!spec[@]}"; do
        local mode=${spec[$n]%%=*} path=${spec[$n]#*=} cache=mmap
        if [ "$mode" = ro ]; then cache=loose; fi
        SSH root@127.0.0.1 "mkdir -p '$path' && modprobe 9pnet_virtio && mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,$mode,cache=$cache s$n '$path'" < /dev/null \
            || die "could not mount $path in the guest"
    done
    SSH root@127.0.0.1 numavm-ready < /dev/null || die "docker did not come up in the guest"
    note $what.docker "$t0"
    if [ "$lay" = 4pci ]; then functions || die "the virtual functions could not be made"; note $what.devices "$t0"; fi
}

save() { # state.LAYOUT (memory) and disk.LAYOUT (the disk at that moment) belong together
    local lay=${NUMAVM_LAYOUT:-4node} t0 pid
    [ "$lay" != 4pci ] || die "QEMU cannot save the state of NVMe cards: layout 4pci boots from scratch each time"
    rm -f "state.$lay" "disk.$lay"
    cp --sparse=always disk.raw "disk.$lay"
    DISKFILE=disk.$lay NUMAVM_SHARE="" NUMAVM_SHARE_RW="" NUMAVM_FRESH=0 boot
    SSH root@127.0.0.1 'docker run --rm numaprobe true; modprobe 9pnet_virtio; modprobe 9p; sync' < /dev/null
    SSH -O exit root@127.0.0.1 2>/dev/null || true
    t0=$(now); pid=$(cat qemu.pid)
    QMP save "$DIR/state.tmp" || { cat qemu.err >&2; die "could not save the state"; }
    QMP quit || true
    while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
    rm -f qemu.pid ssh.ctl qmp.sock
    mv state.tmp "state.$lay"
    note save.state "$t0"; ls -lsh "state.$lay" "disk.$lay" >&2
}

exec_() {
    running || die "not running"
    local line v e=""
    if [ $# = 1 ]; then line=$1; else line=$(printf '%q ' "$@"); fi
    # registries' settings go along; the host's loopback is 10.0.2.2 in there
    for v in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY \
             PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_CERT PIP_DEFAULT_TIMEOUT ${NUMAVM_ENV:-}; do
        [ -n "${!v:-}" ] && e="$e export $v=$(printf '%q' "$(echo "${!v}" | sed -E 's#//(127\.0\.0\.1|localhost)([:/])#//10.0.2.2\2#g')");"
    done
    SSH root@127.0.0.1 "$e cd /root; $line"
}

halt() {
    running || { echo "not running" >&2; return 0; }
    local pid t0 i; pid=$(cat qemu.pid); t0=$(now)
    if [ "$(cat snap 2>/dev/null)" = on ]; then QMP quit 2>/dev/null || true   # nothing on disk to keep
    else SSH root@127.0.0.1 'systemctl poweroff' < /dev/null 2>/dev/null || true; fi
    SSH -O exit root@127.0.0.1 2>/dev/null || true
    for i in $(seq 1 240); do kill -0 "$pid" 2>/dev/null || break; sleep 0.5; done
    if kill -0 "$pid" 2>/dev/null; then kill "$pid"; sleep 2; fi
    rm -f qemu.pid ssh.ctl qmp.sock
    note halt "$t0"
}

case $VERB in
build) build ;;
boot) boot ;;
save) running && die "halt first"; save ;;
exec) [ $# -ge 1 ] || die "exec what?"; exec_ "$@" ;;
push) running || die "not running"
      cd "$HERE"; set -- "$(readlink -e "$1" || die "no such file: $1")" "$2"; cd "$DIR"
      tar -C "$(dirname "$1")" -cf - "$(basename "$1")" | SSH root@127.0.0.1 "mkdir -p '$2' && tar -xf - -C '$2'" ;;
status) if running; then echo "running pid $(cat qemu.pid) ssh 127.0.0.1:$(cat port)"; else echo stopped; fi ;;
halt) halt ;;
destroy) halt; cd /; rm -rf "$DIR" ;;
*) die "unknown verb $VERB" ;;
esac
