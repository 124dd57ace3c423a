#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'TEXT'
usage: tools/images.sh build|base|try

Container images of the service in Kolla's layout: zun-base, zun-api, zun-scheduler,
zun-conductor, zun-compute and zun-wsproxy, tagged with ZUN_IMAGE_TAG (default: latest).

  build  collect the wheels (pip, outside of Docker) and build the images on BASE_IMAGE
         (default: debian:SUITE). BUILD_NETWORK is Docker's network meanwhile; a base
         image with all packages needs none
  base   make the image zun-debian:SUITE with debootstrap, for machines that can
         reach Debian's packages and no image registry; then use it with
         BASE_IMAGE=zun-debian:SUITE. Needs root
  try    start all programs from their images with a config.json each, over RabbitMQ,
         MariaDB, keystone, Docker and, if there, Neutron of "tools/services.sh start"; run a
         pinned container, open a terminal in it, replace zun-compute while it runs, stop all,
         and remove what this made. A minute or two. Needs root

ZUN_IMAGE_SUITE is the Debian release of the images, SUITE above: trixie (default) or
bookworm. PYTHON collects the wheels; its version must be that of the release, 3.13 or
3.11 (default: python3.13 or python3.11).
TEXT
}

TAG=${ZUN_IMAGE_TAG:-latest}
SUITE=${ZUN_IMAGE_SUITE:-trixie}
TARGETS=(zun-base zun-api zun-scheduler zun-conductor zun-compute zun-wsproxy)
WORK=

cleanup() {
    if [ -n "$WORK" ]; then rm -rf "$WORK"; fi
}
trap cleanup EXIT

# The packages that the images install, one a line.
packages() {
    sed -e :a -e '/\\$/N; s/\\\n//; ta' "$ROOT/etc/kolla/Dockerfile" |
        sed -n 's/^RUN install_missing \([a-z0-9 -]*\).*/\1/p' | tr -s ' ' '\n'
}

# The version of Python in the release: the wheels are for this one.
python_version() {
    case $SUITE in
        trixie) echo 3.13 ;;
        bookworm) echo 3.11 ;;
        *) die "ZUN_IMAGE_SUITE must be trixie or bookworm, got $SUITE." ;;
    esac
}

base() {
    python_version >/dev/null
    command -v debootstrap >/dev/null || die "debootstrap is not installed"
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/zun-images.XXXXXX")
    say "Making zun-debian:$SUITE with debootstrap (a minute or two)"
    debootstrap --variant=minbase \
        --include="$(packages | paste -sd ,)" \
        "$SUITE" "$WORK/root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$WORK/log" || die "debootstrap failed: $(tail -3 "$WORK/log")"
    rm -rf "$WORK"/root/var/cache/apt/archives/*.deb "$WORK"/root/var/lib/apt/lists/*
    tar -C "$WORK/root" -c . | docker import - "zun-debian:$SUITE"
}

build() {
    local target version python
    version=$(python_version)
    python=${PYTHON:-python$version}
    [ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version" ] ||
        die "The images of $SUITE have Python $version, and $python is not one. Point PYTHON at a Python $version."
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/zun-images.XXXXXX")
    say "Collecting wheels"
    "$python" -m pip wheel -q -c "$ROOT/upper-constraints.txt" -w "$WORK/wheels" \
        "$ROOT[postgresql,neutron,cinder,memcached]"
    cp "$ROOT/etc/kolla/kolla_start" "$ROOT/etc/kolla/install_missing" "$WORK/"
    for target in "${TARGETS[@]}"; do
        say "Building $target:$TAG"
        docker build -q --network "${BUILD_NETWORK:-default}" --target "$target" -t "$target:$TAG" \
            --build-arg "BASE_IMAGE=${BASE_IMAGE:-debian:$SUITE}" -f "$ROOT/etc/kolla/Dockerfile" "$WORK"
    done
}

try_all() {
    local python=$RUN_DIR/venv/bin/python
    [ -x "$python" ] || die "There is no $python. Run tools/services.sh install."
    eval "$("$ROOT/tools/services.sh" env)"
    ZUN_IMAGE_TAG=$TAG "$python" "$ROOT/tools/try_images.py"
}

case ${1:-} in
    base) base ;;
    build) build ;;
    try) try_all ;;
    -h | --help) usage ;;
    *) usage >&2 && exit 2 ;;
esac
