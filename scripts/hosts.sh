#!/usr/bin/env bash
# Hosts made of namespaces, to try things on: scripts/hosts.sh [N] | packages
source "$(dirname "$0")/environment.sh"

debian iproute2 nftables openssh-client openssh-server ufw util-linux
[ "${1:-}" = packages ] || exec "$PYTHON" tests/hosts/by_hand.py "${1:-2}"
