#!/bin/sh
# What every container of this image does first: what sshd needs and an image must not contain, its own host keys.
set -e
mkdir -p /run/sshd /var/lib/horovod
case ${1:-} in
*sshd) [ -e /etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key ;;
esac
exec "$@"
