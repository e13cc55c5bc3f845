"""What a rank reports about itself, the program that reports it, and what is right."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

PYTHON = sys.executable
PROGRAM = str(Path(__file__).with_name("report.py"))


def place(hosts: Mapping[str, int]) -> list[dict[str, object]]:
    """What every rank of a job on `hosts` must report: slot by slot, host by host."""
    size = sum(hosts.values())
    reports: list[dict[str, object]] = []
    for host, slots in hosts.items():
        for local in range(slots):
            with_as_many = [name for name, count in hosts.items() if count > local]
            reports.append(
                {
                    "rank": len(reports),
                    "size": size,
                    "local_rank": local,
                    "local_size": slots,
                    "cross_rank": with_as_many.index(host),
                    "cross_size": len(with_as_many),
                    "host": host,
                    "sum": size * (size - 1) // 2,
                }
            )
    return reports


def reports(output: str) -> list[dict[str, object]]:
    """The reports in the output of a job, by rank. A launcher may put two on one line."""
    found = [json.loads(text) for text in re.findall(r"\{[^{}]*\}", output)]
    return sorted(found, key=lambda report: report["rank"])
