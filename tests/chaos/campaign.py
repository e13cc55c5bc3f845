"""One fault from beginning to end: the job it needs, the harm, the result."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from expectations import check_numbers
from faults import KINDS
from target import Plan, Target, Violation


class Fault(NamedTuple):
    """One fault, fully determined except for the moment at which the machine lets it happen."""

    kind: str
    seed: int
    transport: str
    ranks: int

    def __str__(self) -> str:
        return f"{self.kind:15} {self.transport:3} np {self.ranks} seed {self.seed}"


def commit(fault: Fault, logs: Path | None = None) -> str | None:
    """Starts a job, does the harm, and returns what was wrong about the outcome."""
    kind = KINDS[fault.kind]
    chance = random.Random(fault.seed)
    plan = Plan(fault.ranks, fault.transport, fault.seed, kind.environment, kind.wrapper)
    with Target(plan) as target:
        wrong = None
        try:
            kind.act(target, chance)
            target.check_traces()
        except Violation as violation:
            wrong = str(violation)
        try:
            check_numbers(target)
        except Violation as violation:
            wrong = f"WRONG NUMBER: {violation}"
    if wrong and logs:
        logs.mkdir(parents=True, exist_ok=True)
        name = f"{fault.kind}-{fault.transport}-{fault.ranks}-{fault.seed}.log"
        (logs / name).write_text(f"{fault}\n{wrong}\n\n{target.text()}")
    return wrong


def draw(seed: int, kinds: list[str], transports: list[str], ranks: range) -> Fault:
    """The fault that belongs to a seed."""
    chance = random.Random(seed)
    kind = kinds[seed % len(kinds)]
    possible = [name for name in transports if name in KINDS[kind].transports]
    return Fault(kind, seed, chance.choice(possible), chance.choice(ranks))
