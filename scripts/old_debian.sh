#!/usr/bin/env bash
# Runs a shell line in a root file system of Debian 11 (glibc 2.31, Python 3.9), which sees DIRECTORY as /given.
#
#     scripts/old_debian.sh DIRECTORY 'python3 --version; ls /given'
#
# Needs root and Debian's debootstrap; without them it ends with status 3 and says why. The root file system is made once
# and kept in the user's cache folder; each run has its own copy, in memory where there is plenty, and leaves nothing.
source "$(dirname "$0")/environment.sh"

SUITE=bullseye
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/horovod
KEPT=$CACHE/$SUITE.tar.gz

make_root() {
    debian debootstrap
    say "making a Debian root file system with an older glibc (about a minute; kept in $CACHE)" >&2
    if ! timeout 600 debootstrap --variant=minbase --include=python3,python3-venv \
        "$SUITE" "$ROOT" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$ROOT.log" 2>&1; then
        local reason
        reason=$(tail -n 3 "$ROOT.log")
        # A mirror drops a release when its support ends.
        grep -qE 'Failed getting release|Invalid Release|Couldn.t download' "$ROOT.log" \
            && cannot "Debian's mirror has no $SUITE (any more): $reason"
        fail "debootstrap: $reason"
    fi
    mkdir -p "$CACHE"
    tar --numeric-owner --one-file-system --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' -C "$ROOT" -c . \
        | gzip -1 >"$KEPT.$$"
    mv "$KEPT.$$" "$KEPT"
}

[ $# = 2 ] || fail "usage: scripts/old_debian.sh DIRECTORY LINE"
[ "$(id -u)" = 0 ] || cannot "a root file system with an older glibc needs root"
[ "$(uname -m)" = x86_64 ] || cannot "only tried on x86_64"
if [ -z "${OWN_MOUNTS:-}" ]; then
    command -v apt-get >/dev/null || cannot "a root file system with an older glibc needs Debian's debootstrap"
    unshare --mount true 2>/dev/null || cannot "this machine does not let root make mount namespaces"
    # What is mounted from here on goes with this process.
    OWN_MOUNTS=1 exec unshare --mount --propagation private "$0" "$@"
fi
ROOT=$(mktemp -d -t horovod-old.XXXXXX)
trap 'umount --recursive "$ROOT" 2>/dev/null; rm -rf --one-file-system "$ROOT" "$ROOT.log"' EXIT
in_memory "$ROOT" 2
if [ -e "$KEPT" ]; then tar -xzf "$KEPT" -C "$ROOT"; else make_root; fi
mountpoint -q "$ROOT/proc" || mount -t proc proc "$ROOT/proc"
mount -t tmpfs tmpfs "$ROOT/dev/shm"
mkdir -p "$ROOT/given"
mount --bind "$1" "$ROOT/given"
chroot "$ROOT" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 /bin/sh -ec "$2"
