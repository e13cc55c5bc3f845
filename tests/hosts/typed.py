"""A remedy out of a refusal, and typing it: a job is refused, a line is taken from what was printed
and typed as it stands, and the job runs. What is refused and why is left to the tests."""

from __future__ import annotations

import re

from host import Finished, Host
from jobs import run

ONE_EACH = ("-np", "2", "-H", "hosta:1,hostb:1")
ECHO = ("echo", "ran")


def refused(host: Host, *arguments: str, **options) -> str:
    """What is printed in place of a start."""
    ended = run(host, *arguments, **options)
    assert ended.code != 0 and "ran" not in ended.output, ended
    return ended.words()


def runs(host: Host, *arguments: str, ranks: int = 2, **options) -> str:
    """What a job prints on standard error that runs with all its ranks."""
    ended = run(host, *arguments, **options)
    assert ended.code == 0 and ended.output.count("ran") == ranks, ended
    return ended.words()


def command(words: str, beginning: str) -> str:
    """The command that begins like this, out of its backticks."""
    found = [part for part in re.findall(r"`([^`]+)`", words) if part.startswith(beginning)]
    assert len(found) == 1, f"{beginning}: {found} in {words}"
    return found[0]


def copying(words: str) -> str:
    """The command behind the last colon."""
    return words.rpartition(": ")[2]


def types(host: Host, line: str, **options) -> Finished:
    done = host.run(line, timeout=120, **options)
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done
