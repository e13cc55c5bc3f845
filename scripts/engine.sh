#!/usr/bin/env bash
# A Docker engine for the tests of machines that run none: prints its address and process id when it is ready, serves
# until its standard input ends, and leaves nothing behind. By hand: `scripts/engine.sh`, and Ctrl-D when done.
#
# The engine has its own network, mount, host name and process namespaces: its bridges, firewall rules and published ports are not
# the machine's, so that nothing else here notices it, and killing it in any way kills everything it started. It reaches
# the outside, for building images, through slirp4netns. Two such engines, `scripts/engine.sh node7` and `... node8`, are
# two machines with these host names, once their networks are connected.
source "$(dirname "$0")/environment.sh"

READY_TIMEOUT=60 # seconds

inside() {
    ip link set lo up
    hostname "$NAME"
    mount --bind "$SCRATCH/resolv.conf" /etc/resolv.conf
    mount --bind "$SCRATCH/hosts" /etc/hosts
    mkdir "$SCRATCH/data"
    in_memory "$SCRATCH/data" 4
    echo >"$SCRATCH/isolated"
    read -r _ <"$SCRATCH/connected"
    exec dockerd --host "unix://$SCRATCH/socket" --data-root "$SCRATCH/data" --exec-root "$SCRATCH/exec" \
        --pidfile "$SCRATCH/pid" --shutdown-timeout 3 >"$SCRATCH/log" 2>&1
}

packages() {
    [ "$(uname -s)" = Linux ] || cannot "an engine for the tests needs Linux; start Docker and try again"
    [ "$(id -u)" = 0 ] || cannot "no Docker engine is running, and starting one for the tests needs root"
    [ -c /dev/net/tun ] || cannot "no Docker engine is running, and one for the tests needs /dev/net/tun"
    # Words of the installation must not pass for the address.
    local wanted=(iproute2 iptables openssh-client slirp4netns)
    # Not beside an engine from elsewhere that merely does not run.
    command -v dockerd >/dev/null || wanted+=(docker.io)
    (debian "${wanted[@]}") >&2 || cannot "no Docker engine is running, and one for the tests needs: ${wanted[*]}"
    command -v dockerd >/dev/null || cannot "no Docker engine is running, and dockerd is not installed"
}

# Starts a command that dies with this script, however the script dies.
attached() { exec setpriv --pdeathsig KILL "$@"; }

start() {
    mkfifo "$SCRATCH/isolated" "$SCRATCH/connected" "$SCRATCH/network"
    # slirp4netns answers for names at this address of its network.
    echo 'nameserver 10.0.2.3' >"$SCRATCH/resolv.conf"
    printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$NAME" >"$SCRATCH/hosts"
    : >"$SCRATCH/log"
    (SCRATCH=$SCRATCH attached unshare --net --uts --mount --pid --fork --kill-child --mount-proc "$0" "$NAME" inside) \
        </dev/null >>"$SCRATCH/log" 2>&1 &
    ENGINE=$!
    read -r -t 10 _ <>"$SCRATCH/isolated" || cannot "no namespaces here: $(tail -n 3 "$SCRATCH/log")"
    exec 4<>"$SCRATCH/network"
    (attached slirp4netns --configure --mtu=65520 --disable-host-loopback --ready-fd=4 "$ENGINE" tap0) \
        </dev/null >>"$SCRATCH/log" 2>&1 &
    NETWORK=$!
    read -r -t 10 -n 1 _ <&4 || cannot "no network for the engine: $(tail -n 3 "$SCRATCH/log")"
    echo >"$SCRATCH/connected"
}

wait_until_ready() {
    local deadline=$((SECONDS + READY_TIMEOUT))
    until docker --host "unix://$SCRATCH/socket" version >/dev/null 2>&1; do
        kill -0 "$ENGINE" 2>/dev/null || cannot "the Docker engine ended: $(tail -n 3 "$SCRATCH/log")"
        [ $SECONDS -lt $deadline ] || cannot "the Docker engine is not ready after $READY_TIMEOUT s: $(tail -n 3 "$SCRATCH/log")"
        sleep 0.1
    done
}

stop() {
    local status=$?
    trap - EXIT
    # `unshare` ignores SIGTERM while its child lives: the engine itself is the child.
    if [ -n "${ENGINE:-}" ] && kill -0 "$ENGINE" 2>/dev/null; then
        pkill -TERM -P "$ENGINE" || true
        timeout 20 tail --pid="$ENGINE" -f /dev/null || kill -KILL "$ENGINE" || true
        wait "$ENGINE" 2>/dev/null || true
    fi
    [ -n "${NETWORK:-}" ] && { kill "$NETWORK" 2>/dev/null || true; }
    rm -rf "$SCRATCH"
    exit $status
}

NAME=${1:-$(hostname)}
if [ "${2:-}" = inside ]; then
    inside
fi
packages
SCRATCH=$(mktemp -d -t horovod-engine.XXXXXX)
trap stop EXIT
trap 'exit 143' TERM INT HUP
start
wait_until_ready
echo "unix://$SCRATCH/socket $ENGINE"
cat >/dev/null
