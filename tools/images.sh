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
         (default: debian:bookworm). BUILD_NETWORK is Docker's network meanwhile; a base
         image with all packages needs none
  base   make the image zun-debian:bookworm with debootstrap, for machines that can
         reach Debian's packages and no image registry; then use it with
         BASE_IMAGE=zun-debian:bookworm. Needs root
  try    start zun-api from its image with a config.json, ask it for its versions, and
         remove what this made
TEXT
}

TAG=${ZUN_IMAGE_TAG:-latest}
TARGETS=(zun-base zun-api zun-scheduler zun-conductor zun-compute zun-wsproxy)
WORK=

cleanup() {
    if [ -n "$WORK" ]; then rm -rf "$WORK"; fi
}
trap cleanup EXIT

base() {
    command -v debootstrap >/dev/null || die "debootstrap is not installed"
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/zun-images.XXXXXX")
    say "Making zun-debian:bookworm with debootstrap (a minute or two)"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates,e2fsprogs \
        bookworm "$WORK/root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$WORK/log" || die "debootstrap failed: $(tail -3 "$WORK/log")"
    rm -rf "$WORK"/root/var/cache/apt/archives/*.deb "$WORK"/root/var/lib/apt/lists/*
    tar -C "$WORK/root" -c . | docker import - zun-debian:bookworm
}

build() {
    local target
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/zun-images.XXXXXX")
    say "Collecting wheels"
    "${PYTHON:-python3}" -m pip wheel -q -c "$ROOT/upper-constraints.txt" -w "$WORK/wheels" "$ROOT[postgresql]"
    cp "$ROOT/etc/kolla/kolla_start" "$WORK/"
    for target in "${TARGETS[@]}"; do
        say "Building $target:$TAG"
        docker build -q --network "${BUILD_NETWORK:-default}" --target "$target" -t "$target:$TAG" \
            --build-arg "BASE_IMAGE=${BASE_IMAGE:-debian:bookworm}" -f "$ROOT/etc/kolla/Dockerfile" "$WORK"
    done
}

try_api() {
    local container answer=""
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/zun-images.XXXXXX")
    cat >"$WORK/config.json" <<'JSON'
{
    "command": "sh -c 'zun-db-manage upgrade && exec zun-api'",
    "config_files": [
        {"source": "/var/lib/kolla/config_files/zun.conf", "dest": "/etc/zun/zun.conf", "owner": "root:zun", "perm": "0640"}
    ]
}
JSON
    printf '[DEFAULT]\nstate_path = /var/lib/zun\ntransport_url = fake:\n[api]\nhost_ip = 127.0.0.1\nauth_strategy = noauth\n' \
        >"$WORK/zun.conf"
    container=$(docker create --network none -e KOLLA_CONFIG_STRATEGY=COPY_ALWAYS "zun-api:$TAG")
    # shellcheck disable=SC2064
    trap "docker rm -f $container >/dev/null; cleanup" EXIT
    docker cp "$WORK/config.json" "$container:/var/lib/kolla/config_files/"
    docker cp "$WORK/zun.conf" "$container:/var/lib/kolla/config_files/"
    docker start "$container" >/dev/null
    for _ in $(seq 120); do
        answer=$(docker exec "$container" python3 -c \
            'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:9517/").read().decode())' 2>/dev/null) && break
        sleep 0.5
    done
    [ -n "$answer" ] || { docker logs "$container" >&2; die "zun-api does not answer"; }
    docker exec "$container" stat -c '%U:%G %a %n' /etc/zun/zun.conf
    docker exec "$container" stat -c 'process 1 is of user %U' /proc/1
    say "zun-api answers: ${answer:0:120}"
}

case ${1:-} in
    base) base ;;
    build) build ;;
    try) try_api ;;
    -h | --help) usage ;;
    *) usage >&2 && exit 2 ;;
esac
