#!/usr/bin/env bash
# Builds the container image `horovod` of docker/Dockerfile with the wheel in dist/.
#
#     BASE=ubuntu:24.04 PACKAGES="numpy torch" TAG=me/horovod scripts/image.sh
#
# Where no registry answers, the base is a Debian root file system made here (root, Debian's debootstrap), kept for the
# next time in the user's cache folder.
source "$(dirname "$0")/environment.sh"
source scripts/root_file_system.sh

TAG=${TAG:-horovod}
PACKAGES=${PACKAGES:-numpy}
OWN_BASE=horovod-base:$SUITE

# Sets BASE: what the caller wants, what is here already, what a registry has, what can be made.
find_base() {
    [ -n "${BASE:-}" ] && return
    BASE=debian:$SUITE-slim
    docker image inspect "$BASE" >/dev/null 2>&1 && return
    if ! docker image inspect "$OWN_BASE" >/dev/null 2>&1; then
        timeout 60 docker pull --quiet "$BASE" >/dev/null 2>&1 && return
        make_root_file_system
        docker import "$ROOT_FILE_SYSTEM" "$OWN_BASE" >/dev/null
    fi
    BASE=$OWN_BASE
}

# How this machine reaches its packages is how the build does.
settings() {
    local name value
    for name in index-url extra-index-url trusted-host; do
        value=$("$PYTHON" -m pip config get "global.$name" 2>/dev/null) || value=
        variable=PIP_$(tr a-z- A-Z_ <<<"$name")
        value=${!variable:-$value}
        [ -n "$value" ] && printf -- '--build-arg\0%s=%s\0' "$variable" "$value"
    done
    for name in http_proxy https_proxy no_proxy; do
        [ -n "${!name:-}" ] && printf -- '--build-arg\0%s\0' "$name"
    done
    return 0
}

need docker "install it: docs/guide/docker.md works with any engine"
docker version >/dev/null 2>&1 || fail "no Docker engine is running; start it, or open one for a moment with scripts/engine.sh"
compgen -G 'dist/*.whl' >/dev/null || fail "no wheel in dist/; run: make wheel"
find_base
mapfile -d '' -t arguments < <(settings)
say "building the image $TAG from $BASE"
timeout 900 docker build --quiet --network host --file docker/Dockerfile --tag "$TAG" \
    --build-arg "BASE=$BASE" --build-arg "PACKAGES=$PACKAGES" "${arguments[@]}" .
