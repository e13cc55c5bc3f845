"""What has to come of a job that was harmed: within which time, and said by whom."""

from __future__ import annotations

from target import Target, Violation

HOST = "localhost"
# Survivors know of a death at once, and of a silence after the transport's timeout.
DEATH_LIMIT = 1.0
TIMEOUT = 2
SILENCE_LIMIT = TIMEOUT + 2.0
# Without any network even the news of a failure cannot travel; every rank notices the silence.
CUT_LIMIT = 8.0
# From the first failure to the last process, by the launcher's own promise; and some air.
END_LIMIT = 6.0
FINISH_LIMIT = 40.0


def expect_all_done(target: Target, seconds: float = FINISH_LIMIT) -> None:
    target.ask_to_stop()
    code = target.await_end(seconds)
    unfinished = [r for r in range(target.plan.ranks) if target.said(r, "done") is None]
    if code != 0 or unfinished:
        raise Violation(f"exit code {code} instead of 0; ranks {unfinished} did not finish")


def expect_survivors_name(
    target: Target, culprits: set[int], since: float, limit: float, victims: set[int]
) -> None:
    for rank in sorted(set(range(target.plan.ranks)) - victims):
        last = target.said(rank, "error", "terminated", "done")
        if last is None:
            raise Violation(f"rank {rank} said nothing of the failure")
        if last.kind == "terminated":
            # The launcher ended it before it had a reason to look.
            if last.facts["waited"] > limit:
                raise Violation(f"rank {rank} waited {last.facts['waited']:.2f} s in vain")
            continue
        if last.kind == "done":
            raise Violation(f"rank {rank} finished without the others")
        named = [c for c in culprits if f"rank {c} on host `{HOST}`" in last.facts["text"]]
        if not named:
            raise Violation(f"rank {rank} blames another than {culprits}: {last.facts['text']}")
        if last.time - since > limit:
            raise Violation(f"rank {rank} heard of it after {last.time - since:.2f} s")


def expect_report(target: Target, code: int, expected_code: int, sentence: str) -> None:
    if code != expected_code:
        raise Violation(f"exit code {code} instead of {expected_code}")
    if sentence not in target.text():
        raise Violation(f"the report does not say `{sentence}`")


def check_numbers(target: Target) -> None:
    for event in target.events:
        if event.kind == "wrong":
            raise Violation(f"rank {event.rank}: {event.facts['text']}")
