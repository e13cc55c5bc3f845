# Sourced by image.sh and apptainer.sh: a Debian root file system with Python, made here once and kept for the next time in
# the user's cache folder.

SUITE=trixie
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/horovod
ROOT_FILE_SYSTEM=$CACHE/$SUITE.tar.gz

# The packages are those docker/Dockerfile asks for: here, once, they cost seconds; there, in every build.
make_root_file_system() {
    [ -e "$ROOT_FILE_SYSTEM" ] && return
    [ "$(id -u)" = 0 ] || cannot "no registry answers for a base image, and making one needs root; name one: BASE=... make image"
    debian debootstrap
    say "making a Debian root file system (about a minute; kept in $CACHE)"
    local root
    root=$(mktemp -d -t horovod-root.XXXXXX)
    # shellcheck disable=SC2064 # the folder of now
    trap "umount '$root' 2>/dev/null; rm -rf '$root' '$root.log'" EXIT
    in_memory "$root" 2
    timeout 600 debootstrap --variant=minbase \
        --include=ca-certificates,openssh-client,openssh-server,python-is-python3,python3-pip \
        "$SUITE" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$root.log" 2>&1 || fail "debootstrap: $(tail -n 3 "$root.log")"
    rm -f "$root"/var/cache/apt/archives/*.deb
    # Authorities this machine trusts beyond the public ones, or no package index behind a proxy answers.
    if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
        cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
        chroot "$root" update-ca-certificates >/dev/null 2>&1
    fi
    mkdir -p "$CACHE"
    tar --numeric-owner --exclude='./var/lib/apt/lists/*' -C "$root" -c . | gzip -1 >"$CACHE/$SUITE.new"
    mv "$CACHE/$SUITE.new" "$ROOT_FILE_SYSTEM"
}
