"""Host lists and which rank runs on which host, for programs that import this from upstream.

`horovodrun` itself has its own, in Rust, which also accepts users and IPv6 addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass
class HostInfo:
    """A host and how many ranks it takes."""

    hostname: str
    slots: int

    @staticmethod
    def from_string(host_string: str) -> HostInfo:
        """Reads `name:slots`."""
        match = re.fullmatch(r"([\w.-]+):(\d+)", host_string.strip(), re.ASCII)
        if match is None:
            raise ValueError(
                f"{host_string.strip()!r} is not a host with its slots; write e.g. worker-1:4"
            )
        return HostInfo(match[1], int(match[2]))


@dataclass
class SlotInfo:
    """The place of one rank."""

    hostname: str
    rank: int
    local_rank: int
    cross_rank: int
    size: int
    local_size: int
    cross_size: int

    def to_response_string(self) -> str:
        """Everything but the name of the host, as upstream's launcher sends it to a worker."""
        numbers = (self.rank, self.size, self.local_rank, self.local_size)
        return ",".join(str(number) for number in (*numbers, self.cross_rank, self.cross_size))


INVALID_SLOT_INFO = SlotInfo("", -1, -1, -1, -1, -1, -1)
"""The slot of a worker that is not part of the job."""


def parse_hosts(hosts_string: str) -> list[HostInfo]:
    """Reads a list such as `worker-1:4,worker-2:4`, in its order."""
    return [HostInfo.from_string(item) for item in hosts_string.split(",")]


def parse_hosts_and_slots(hosts: str) -> tuple[list[str], dict[str, int]]:
    """Reads such a list into the names of the hosts and the slots of each."""
    parsed = parse_hosts(hosts)
    return [host.hostname for host in parsed], {host.hostname: host.slots for host in parsed}


def parse_host_files(filename: str) -> str:
    """Reads a file with lines such as `worker-1 slots=4` into a list for `parse_hosts`."""
    lines = [line.split("#")[0].strip() for line in Path(filename).read_text().splitlines()]
    items = []
    for line in filter(None, lines):
        match = re.fullmatch(r"(\S+)\s+slots\s*=\s*(\d+)", line)
        if match is None:
            raise ValueError(f"{filename}: write a host as `worker-1 slots=4`, not {line!r}")
        items.append(f"{match[1]}:{match[2]}")
    return ",".join(items)


def get_host_assignments(
    hosts: Iterable[HostInfo], min_num_proc: int, max_num_proc: int | None = None
) -> list[SlotInfo]:
    """Gives ranks to the slots of hosts, one host after the other.

    Raises ValueError if there are fewer slots than `min_num_proc`. All are used, up to
    `max_num_proc`.
    """
    hosts = list(hosts)
    used: list[int] = []
    for host in hosts:
        left = None if max_num_proc is None else max_num_proc - sum(used)
        used.append(host.slots if left is None else min(host.slots, left))
    size = sum(used)
    if size < min_num_proc:
        raise ValueError(f"{min_num_proc} processes were asked for, but hosts have {size} slots")
    places = [(host, index) for host, slots in enumerate(used) for index in range(slots)]
    return [
        SlotInfo(
            hostname=hosts[host].hostname,
            rank=rank,
            local_rank=index,
            cross_rank=sum(slots > index for slots in used[:host]),
            size=size,
            local_size=used[host],
            cross_size=sum(slots > index for slots in used),
        )
        for rank, (host, index) in enumerate(places)
    ]
