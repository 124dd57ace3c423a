#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'TEXT'
usage: tools/suite.sh make SUITE PACKAGE...
       tools/suite.sh SUITE COMMAND...

"make" unpacks a Debian release into .run/suites/SUITE with debootstrap, once, and
installs the packages that the folder lacks. Nothing is installed into this machine.

Run COMMAND with the bash, the Python and the tools of this release, for example trixie
(Python 3.13) or sid (3.14). COMMAND sees the checkout, /proc, /sys, /dev, /tmp and /run
of this machine, and begins in the current folder. Needs root.

Environment: ZUN_RUN_DIR (in the place of .run), ZUN_SUITE_PATHS (further paths of this
machine that COMMAND sees). Remove the folder for newer packages.
TEXT
}

# make SUITE PACKAGE...
make() {
    local suite=$1 root=$RUN_DIR/suites/$1 uri path package missing=()
    shift
    have debootstrap || die "debootstrap is not installed"
    if [ ! -e "$root/etc/debian_version" ]; then
        uri=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -1)
        [ -n "$uri" ] || die "apt has no source of packages. Add one to /etc/apt/sources.list.d."
        say "Unpacking Debian $suite into $root (a few minutes; log: $root.log)"
        rm -rf --one-file-system "$root.new"
        mkdir -p "$RUN_DIR/suites"
        debootstrap --variant=minbase --include=ca-certificates "$suite" "$root.new" "$uri" >"$root.log" 2>&1 ||
            die "debootstrap failed: $(tail -3 "$root.log")"
        mv "$root.new" "$root"
    fi
    # The network's own name servers and authorities are those of this machine.
    for path in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
        if [ -e "$path" ]; then cp --remove-destination "$path" "$root$path"; fi
    done
    for package; do
        chroot "$root" dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "Installing ${missing[*]} there (log: $root.log)"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # no service starts
    chmod +x "$root/usr/sbin/policy-rc.d"
    # shellcheck disable=SC2016 # $@ is of that shell
    inside "$root" sh -c 'apt-get -q update && apt-get -q -y --no-install-recommends install "$@"' apt "${missing[@]}" \
        >>"$root.log" 2>&1 || die "apt-get could not install ${missing[*]}: $(tail -3 "$root.log")"
}

# inside ROOT COMMAND...: what is mounted below ROOT for it goes with it.
inside() {
    local root=$1 git
    shift
    git=$(git -C "$ROOT" rev-parse --path-format=absolute --git-common-dir 2>/dev/null) || git=$ROOT # of a worktree
    # shellcheck disable=SC2016 # the variables are of that shell
    ZUN_SUITE_PATHS=${ZUN_SUITE_PATHS:-} unshare --mount --propagation=slave bash -ec '
        root=$1 here=$PWD checkout=$2 git=$3
        shift 3
        for each in "$checkout" "$git" $ZUN_SUITE_PATHS /proc /sys /dev /tmp /run; do
            if [ -d "$each" ]; then mkdir -p "$root$each"; else install -D /dev/null "$root$each"; fi
            mount --rbind "$each" "$root$each"
        done
        exec chroot "$root" env -C "$here" HOME=/root LANG=C.UTF-8 PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
    ' suite "$root" "$ROOT" "$git" env DEBIAN_FRONTEND=noninteractive "$@" </dev/null
}

case "${1:-}" in
    "" | -h | --help) usage; exit 2 ;;
esac
[ $# -ge 2 ] || { usage >&2; exit 2; }
is_root || die "tools/suite.sh needs root."
making=
if [ "$1" = make ]; then making=1 && shift; fi
suite=$1
shift
# The folder is removed before it is made.
[[ $suite =~ ^[a-z][a-z-]*$ ]] || die "SUITE must be the name of a release of Debian, got $suite."
if [ -n "$making" ]; then
    make "$suite" "$@"
else
    [ -e "$RUN_DIR/suites/$suite/etc/debian_version" ] || die "There is no $suite. Run tools/suite.sh make $suite."
    inside "$RUN_DIR/suites/$suite" "$@"
fi
