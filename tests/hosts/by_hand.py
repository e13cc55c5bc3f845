"""Opens a cluster for a user at a terminal: `make hosts N=3`."""

from __future__ import annotations

import os
import signal
import string
import sys
from pathlib import Path

from cluster import Cluster
from sshd import PORT

HERE = Path(__file__).resolve().parent


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    if not 1 <= count <= 26:
        print(f"error: {count} hosts; 1 to 26 can be made", file=sys.stderr)
        return 2
    # A closed terminal ends the cluster as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    names = [f"host{letter}" for letter in string.ascii_lowercase[:count]]
    try:
        with Cluster(names) as cluster:
            print(what_to_type(cluster), flush=True)
            while os.read(sys.stdin.fileno(), 4096):
                pass
    except KeyboardInterrupt:
        pass
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("removed")
    return 0


def what_to_type(cluster: Cluster) -> str:
    first, last = cluster.names[0], cluster.names[-1]
    slots = ",".join(f"{name}:2" for name in cluster.names)
    table = "".join(
        f"    {host.name}   {host.interfaces[0].name:8} {host.address():12} "
        f"holder process {host.namespace.pid}\n"
        for host in cluster
    )
    enter = HERE.relative_to(Path.cwd()) if HERE.is_relative_to(Path.cwd()) else HERE
    ranks = 2 * len(cluster.names)
    return f"""\
{len(cluster.names)} hosts, each with sshd on port {PORT}:
{table}
In another terminal:
    export CLUSTER={os.getpid()}                          # this one, should there be others
    {enter}/enter {first}                       # a shell there
    {enter}/enter {first} ssh -p {PORT} {last} hostname
    {enter}/enter {first} horovodrun -np {ranks} -H {slots} -p {PORT} hostname
    {enter}/enter {last} ip link set {cluster[last].interfaces[0].name} down

Ctrl-D or Ctrl-C here ends whatever runs on them and removes them."""


if __name__ == "__main__":
    sys.exit(main())
