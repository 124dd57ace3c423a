#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'TEXT'
usage: tools/numavm-test.sh [PYTEST ARGUMENT...]

Passes the tests of zun/tests/machines on an emulated machine with four memory nodes, with the
all-in-one and a Docker daemon in it. Builds the machine if it is missing (root, distribution
packages, ten minutes), boots it, runs pytest in it and halts it. What pytest prints is shown
and kept in .run/numavm/test.log.

  tools/numavm-test.sh                          all of them
  tools/numavm-test.sh -k memory                some
  tools/numavm-test.sh zun/tests/unit/topology  others, in the same machine
  NUMAVM_LAYOUT=4pci tools/numavm-test.sh zun/tests/machines/test_devices.py
                                                those of PCI devices, on a machine that has them
  ZUN_NUMAVM_DIR=.run/trixie NUMAVM_SUITE=trixie tools/numavm-test.sh
                                                on a machine of another Debian release

The code that is tested is the one that was there when the machine had booted: a copy. The
virtual environment is seen by the machine as it is, and so is its Python.

Environment:
  ZUN_NUMAVM_DIR  folder of the machine (.run/numavm)
  VENV            a virtual environment with the project and its test requirements; without it
                  the one of tools/test.sh is made and used
  NUMAVM_LAYOUT, NUMAVM_ACCEL and others: see the head of tools/numavm.sh
TEXT
}

MACHINE=${ZUN_NUMAVM_DIR:-$RUN_DIR/numavm}
# Where the copy is in the machine, and whose path the programs under test get.
COPY=/root/zun

numavm() { "$ROOT/tools/numavm.sh" "$MACHINE" "$@"; }

build() {
    is_root || die "Building the machine needs root (debootstrap): run this as root."
    need_packages debootstrap=debootstrap qemu-system-x86_64=qemu-system-x86 mke2fs=e2fsprogs ssh=openssh-client
    say "Building a machine in $MACHINE (log: $MACHINE/build.log)"
    mkdir -p "$MACHINE"
    numavm build </dev/null >"$MACHINE/build.log" 2>&1 || {
        tail -n 20 "$MACHINE/build.log" >&2
        die "The machine could not be built; the whole output is in $MACHINE/build.log."
    }
}

# Later boots go on from a saved state, in seconds instead of minutes.
save() {
    say "Booting the machine once and saving its state (log: $MACHINE/save.log)"
    numavm save </dev/null >"$MACHINE/save.log" 2>&1 || {
        tail -n 20 "$MACHINE/save.log" >&2
        die "The machine did not come up; the whole output is in $MACHINE/save.log."
    }
}

# The folders that make the virtual environment run: itself and its Python. /usr is not
# among them: the machine has its own, which must then be of the same version.
folders() {
    local base
    base=$("$VENV/bin/python" -c 'import sys; print(sys.base_prefix)')
    readlink -f "$VENV"
    [ "$base" = /usr ] || readlink -f "$base"
}

# The interpreter, for a command line in the machine.
in_machine() {
    printf 'env ZUN_NUMAVM=1 ZUN_NUMAVM_LAYOUT=%q PYTHONPATH=%q PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 %q' \
        "${NUMAVM_LAYOUT:-4node}" "$COPY" "$VENV/bin/python"
}

# What halts the machine; twice is harmless.
cleanup() {
    [ -n "${booted:-}" ] || return 0
    booted=
    numavm halt </dev/null >>"$MACHINE/boot.log" 2>&1 || warn "the machine did not halt; see $MACHINE/boot.log"
}

main() {
    local shares each status=0 words=()
    case ${1:-} in
        -h | --help) usage && exit 0 ;;
    esac
    if [ -z "${VENV:-}" ]; then make_venv tests; fi
    VENV=$(cd "$VENV" && pwd -P)

    [ -f "$MACHINE/disk.raw" ] || build
    # QEMU cannot save the NVMe cards of 4pci.
    [ "${NUMAVM_LAYOUT:-4node}" = 4pci ] || [ -f "$MACHINE/state.${NUMAVM_LAYOUT:-4node}" ] ||
        [ "${NUMAVM_COLD:-0}" = 1 ] || save

    say "Booting the machine (log: $MACHINE/boot.log)"
    shares=$(folders | paste -s -d :)
    trap cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    booted=yes
    NUMAVM_SHARE=$shares NUMAVM_FRESH=1 numavm boot </dev/null >"$MACHINE/boot.log" 2>&1 || {
        tail -n 20 "$MACHINE/boot.log" >&2
        die "The machine did not boot; the whole output is in $MACHINE/boot.log."
    }
    for each in zun pyproject.toml; do numavm push "$ROOT/$each" "$COPY" </dev/null; done
    # The first import reads every module over the wire, and would make the first start of the service very slow.
    numavm exec "cd $COPY && $(in_machine) -W ignore -c 'import pytest, zun.cmd.allinone'" \
        </dev/null >>"$MACHINE/boot.log" 2>&1 ||
        die "$VENV/bin/python does not run in the machine (log: $MACHINE/boot.log): make the virtual environment" \
            "with the Python of the machine's Debian release (bookworm: 3.11, trixie: 3.13), or with one outside of" \
            "/usr that needs no newer C library, and say which in PYTHON or VENV."

    [ $# -gt 0 ] || words=(zun/tests/machines)
    # An option alone chooses among the tests of the machine.
    case ${1:-} in -*) words=(zun/tests/machines) ;; esac
    words+=("$@")
    say "Running the tests in the machine"
    # Emulated, everything is slow: what hangs here is what takes half an hour.
    numavm exec "cd $COPY && $(in_machine) -m pytest -p no:cacheprovider --timeout 1800 -v \
        $(printf '%q ' "${words[@]}")" </dev/null 2>&1 | tee "$MACHINE/test.log" || status=$?
    say "Halting the machine"
    cleanup
    exit "$status"
}

main "$@"
