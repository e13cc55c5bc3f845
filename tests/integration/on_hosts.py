"""Runs a command as if the ranks of a job were on several hosts: `on_hosts.py a,a,b COMMAND ...`.

The list names the host of each rank, in order of rank. Every rank of a job started on one machine
is given the place that it would have there.
"""

from __future__ import annotations

import os
import sys


def place(rank: int, hosts: list[str]) -> dict[str, str]:
    """The variables that tell a rank its place."""
    local = [other for other, host in enumerate(hosts) if host == hosts[rank]]
    local_rank = local.index(rank)
    by_host = [[r for r, host in enumerate(hosts) if host == name] for name in dict.fromkeys(hosts)]
    cross = [ranks[local_rank] for ranks in by_host if len(ranks) > local_rank]
    return {
        "HOROVOD_HOSTNAME": hosts[rank],
        "HOROVOD_LOCAL_RANK": str(local_rank),
        "HOROVOD_LOCAL_SIZE": str(len(local)),
        "HOROVOD_CROSS_RANK": str(cross.index(rank)),
        "HOROVOD_CROSS_SIZE": str(len(cross)),
    }


if __name__ == "__main__":
    os.environ.update(place(int(os.environ["HOROVOD_RANK"]), sys.argv[1].split(",")))
    os.execvp(sys.argv[2], sys.argv[2:])
