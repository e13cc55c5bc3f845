#!/bin/sh
# Runs first in every container: prepares what sshd needs and an image must not contain, a host key
# of the container's own. However the server is started later, `sshd`, `service ssh start` or a
# script, it finds the key. Whatever cannot be prepared here never keeps the command from running.

KEY=ssh_host_ed25519_key

# Makes the host key in a folder. The private key appears last and whole: a container that is killed
# meanwhile makes it at its next start.
make_key() {
    mkdir -p "$1" && [ -w "$1" ] || return
    rm -f "$1/$KEY.new" "$1/$KEY.new.pub"
    ssh-keygen -q -t ed25519 -N '' -f "$1/$KEY.new" </dev/null || return
    mv "$1/$KEY.new.pub" "$1/$KEY.pub" && mv "$1/$KEY.new" "$1/$KEY"
}

# Keys that the user has mounted stay the only ones. On a read-only root file system the key is in
# memory, and docker/sshd.conf includes the file that tells sshd where.
prepare_sshd() {
    mkdir -p /run/sshd
    for key in /etc/ssh/ssh_host_*_key; do
        [ -e "$key" ] && return
    done
    make_key /etc/ssh && return
    for folder in /run/horovod /dev/horovod; do
        make_key "$folder" && echo "HostKey $folder/$KEY" >"$folder/sshd.conf" && return
    done
}

why=
if [ "$(id -u)" != 0 ]; then
    why="the container runs as user $(id -u) and sshd needs root: start it without --user, and let the \
ranks have a user of their own with -H user@host:slots"
elif ! prepare_sshd 2>/dev/null; then
    why="no host key can be made: none of /etc/ssh, /run and /dev can be written"
fi
# Only who wants sshd has to know.
case "$*" in
*sshd* | *"service ssh"*)
    [ -z "$why" ] || echo "horovod-entrypoint: sshd will not start: $why; or use \`horovodrun agent\`, which needs no sshd" >&2
    ;;
esac
exec "$@"
