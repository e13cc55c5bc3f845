"""The faults, by kind: what is done to a job, and what has to come of it.

A fault gets a job and a source of chance, and raises `Violation` if the job, its launcher or any
rank does something else than it should.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import garbage
import traces
from expectations import (
    CUT_LIMIT,
    DEATH_LIMIT,
    END_LIMIT,
    HOST,
    SILENCE_LIMIT,
    TIMEOUT,
    expect_all_done,
    expect_report,
    expect_survivors_name,
)
from sockets import sever_one_connection
from target import START_LIMIT, Target, Violation
from worker import ERROR_EXIT, LEAVE_EXIT

SHORT_TIMEOUT = {"HOROVOD_GLOO_TIMEOUT_SECONDS": str(TIMEOUT)}
TINY = ["unshare", "-m", "sh", "-c"]
TINY_SHM = [*TINY, 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"', "sh"]
FULL_SHM = [
    *TINY,
    "mount -t tmpfs -o size=64k tmpfs /dev/shm && ! head -c 99999 /dev/zero 2>/dev/null "
    '>/dev/shm/full && exec "$@"',
    "sh",
]
OWN_NETWORK = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]

Act = Callable[[Target, random.Random], None]


class Kind(NamedTuple):
    """One kind of fault."""

    act: Act
    environment: Mapping[str, str] = MappingProxyType({})
    wrapper: Sequence[str] = ()
    transports: tuple[str, ...] = ("shm", "tcp")


def pick(target: Target, chance: random.Random) -> int:
    target.await_ready()
    time.sleep(chance.uniform(0, 0.4))
    return chance.randrange(target.plan.ranks)


def die_by(number: signal.Signals) -> Act:
    def act(target: Target, chance: random.Random) -> None:
        victim = pick(target, chance)
        since = time.time()
        os.kill(target.pids()[victim], number)
        code = target.await_end(END_LIMIT)
        expect_survivors_name(target, {victim}, since, DEATH_LIMIT, {victim})
        sentence = f"the job failed: rank {victim} on {HOST} was killed by signal {int(number)}"
        expect_report(target, code, 128 + number, sentence)

    return act


def kill_two(target: Target, chance: random.Random) -> None:
    pick(target, chance)
    victims = set(chance.sample(range(target.plan.ranks), min(2, target.plan.ranks)))
    since = time.time()
    for victim in victims:
        os.kill(target.pids()[victim], signal.SIGKILL)
    code = target.await_end(END_LIMIT)
    expect_survivors_name(target, victims, since, DEATH_LIMIT, victims)
    expect_report(target, code, 128 + signal.SIGKILL, "was killed by signal 9")


def kill_while_starting(target: Target, chance: random.Random) -> None:
    victim = chance.randrange(target.plan.ranks)
    process = target.await_process(victim)
    time.sleep(chance.uniform(0, 0.6))
    os.kill(process, signal.SIGKILL)
    code = target.await_end(END_LIMIT)
    sentence = f"the job failed: rank {victim} on {HOST} was killed by signal 9"
    expect_report(target, code, 128 + signal.SIGKILL, sentence)


def kill_while_ending(target: Target, chance: random.Random) -> None:
    victim = pick(target, chance)
    process = target.pids()[victim]
    target.ask_to_stop()
    time.sleep(chance.uniform(0, 0.3))
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        expect_all_done(target)
        return
    code = target.await_end(END_LIMIT)
    if code != 0 or len([e for e in target.events if e.kind == "done"]) < target.plan.ranks:
        sentence = f"the job failed: rank {victim} on {HOST} was killed by signal 9"
        expect_report(target, code, 128 + signal.SIGKILL, sentence)


def leave_by(how: str, heard: str) -> Kind:
    def act(target: Target, chance: random.Random) -> None:
        victim = pick(target, chance)
        os.kill(target.pids()[victim], signal.SIGUSR1)
        code = target.await_end(END_LIMIT)
        left = target.said(victim, "leaving")
        if left is None:
            raise Violation(f"rank {victim} did not leave")
        expect_survivors_name(target, {victim}, left.time, DEATH_LIMIT, {victim})
        for event in target.events:
            if event.kind == "error" and heard not in event.facts["text"]:
                raise Violation(f"rank {event.rank} did not hear `{heard}`")
        expected = 1 if how == "exception" else LEAVE_EXIT
        sentence = f"the job failed: rank {victim} on {HOST} exited with code {expected}"
        expect_report(target, code, expected, sentence)

    return Kind(act, {"CHAOS_LEAVE": how})


def freeze(target: Target, chance: random.Random) -> None:
    victim = pick(target, chance)
    since = time.time()
    os.kill(target.pids()[victim], signal.SIGSTOP)
    code = target.await_end(SILENCE_LIMIT + END_LIMIT)
    expect_survivors_name(target, {victim}, since, SILENCE_LIMIT, {victim})
    expect_report(target, code, ERROR_EXIT, f"failed: rank {victim} on host `{HOST}`")


def freeze_for_a_moment(target: Target, chance: random.Random) -> None:
    victim = pick(target, chance)
    process = target.pids()[victim]
    os.kill(process, signal.SIGSTOP)
    time.sleep(chance.uniform(0.2, 1.0))
    os.kill(process, signal.SIGCONT)
    time.sleep(0.2)
    expect_all_done(target)


def slow_down(target: Target, chance: random.Random) -> None:
    victim = pick(target, chance)
    process = target.pids()[victim]
    for _ in range(12):
        os.kill(process, signal.SIGSTOP)
        time.sleep(chance.uniform(0.01, 0.12))
        os.kill(process, signal.SIGCONT)
        time.sleep(chance.uniform(0.001, 0.03))
    expect_all_done(target)


def starve(target: Target, chance: random.Random) -> None:
    victim = pick(target, chance)
    for process in target.pids().values():
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(thread), {0})
    os.setpriority(os.PRIO_PROCESS, target.pids()[victim], 19)
    time.sleep(0.5)
    expect_all_done(target)


def end_launcher(number: signal.Signals) -> Act:
    def act(target: Target, chance: random.Random) -> None:
        pick(target, chance)
        os.kill(target.launcher.pid, number)
        code = target.await_end(END_LIMIT)
        expected = -number if number == signal.SIGKILL else 128 + number
        if code != expected:
            raise Violation(f"exit code {code} instead of {expected}")
        target.check_traces(END_LIMIT)

    return act


def kill_driver(target: Target, chance: random.Random) -> None:
    pick(target, chance)
    os.kill(target.driver(), signal.SIGKILL)
    code = target.await_end(END_LIMIT)
    sentence = "the launcher's own process was killed by signal 9"
    expect_report(target, code, 128 + signal.SIGKILL, sentence)


def freeze_driver_for_a_moment(target: Target, chance: random.Random) -> None:
    pick(target, chance)
    process = target.driver()
    os.kill(process, signal.SIGSTOP)
    time.sleep(chance.uniform(0.2, 1.5))
    os.kill(process, signal.SIGCONT)
    expect_all_done(target)


def cut_network(target: Target, chance: random.Random) -> None:
    pick(target, chance)
    since = time.time()
    enter = ["nsenter", "-t", str(target.launcher.pid), "-n"]
    subprocess.run([*enter, "ip", "link", "set", "lo", "down"], check=True)
    code = target.await_end(CUT_LIMIT + END_LIMIT)
    all_ranks = set(range(target.plan.ranks))
    expect_survivors_name(target, all_ranks, since, CUT_LIMIT, set())
    expect_report(target, code, ERROR_EXIT, "the job failed: rank ")


def cut_connection(target: Target, chance: random.Random) -> None:
    victim = pick(target, chance)
    since = time.time()
    sever_one_connection(target.pids()[victim], chance)
    time.sleep(0.5)
    target.ask_to_stop()
    code = target.await_end(SILENCE_LIMIT + END_LIMIT)
    if code == 0:
        expect_all_done(target)
        return
    all_ranks = set(range(target.plan.ranks))
    expect_survivors_name(target, all_ranks, since, SILENCE_LIMIT, set())


def send_garbage(target: Target, chance: random.Random) -> None:
    siege = garbage.Siege(target.mark, chance.randrange(2**32))
    try:
        target.await_ready()
        time.sleep(chance.uniform(0.2, 1.0))
        expect_all_done(target)
    finally:
        siege.lift()
    target.doors |= siege.doors
    if siege.attacks < 10:
        raise Violation(f"only {siege.attacks} attacks found a door")


FLOOD_LIMIT = 20.0


def flood(target: Target, chance: random.Random) -> None:
    """More silent connections at every port than a door holds."""
    target.await_ready()
    with silent_connections(target, chance):
        expect_all_done(target)


def flood_while_starting(target: Target, chance: random.Random) -> None:
    """The same while the ranks wait for the last one, at the sockets where they meet."""
    late = target.await_process(target.plan.ranks - 1)
    os.kill(late, signal.SIGSTOP)
    end = time.monotonic() + START_LIMIT
    while len(traces.listeners_of(target.mark)) < target.plan.ranks:
        if time.monotonic() > end:
            raise Violation(f"no doors: {traces.listeners_of(target.mark)}")
        time.sleep(0.02)
    with silent_connections(target, chance) as listeners:
        os.kill(late, signal.SIGCONT)
        expect_all_done(target)
    is_named = any(listener.name for listener in listeners)
    if is_named != (target.plan.transport == "shm"):
        raise Violation(f"other doors than expected: {listeners}")


@contextlib.contextmanager
def silent_connections(target: Target, chance: random.Random) -> Iterator[list[traces.Listener]]:
    """Holds more of them at every port than a door does."""
    held = []
    try:
        listeners = traces.listeners_of(target.mark)
        for listener in listeners:
            # Faster than a door accepts, so that some wait in the kernel's line.
            count = chance.randrange(257, 400)
            held += [garbage.connect(listener, FLOOD_LIMIT) for _ in range(count)]
        target.doors |= {listener.inode for listener in listeners}
        yield listeners
    finally:
        for stream in held:
            stream.close()
    if len(listeners) < 2:
        raise Violation(f"only {len(listeners)} doors were found")


def work_in_peace(target: Target, chance: random.Random) -> None:
    pick(target, chance)
    expect_all_done(target)


KINDS: dict[str, Kind] = {
    "kill": Kind(die_by(signal.SIGKILL)),
    "segfault": Kind(die_by(signal.SIGSEGV)),
    "kill-two": Kind(kill_two),
    "kill-starting": Kind(kill_while_starting),
    "kill-ending": Kind(kill_while_ending),
    "exception": leave_by("exception", "ended with Told: told to leave"),
    "exit": leave_by("exit", "horovod has been shut down by rank"),
    "os-exit": leave_by("_exit", "closed its connection"),
    "freeze": Kind(freeze, SHORT_TIMEOUT),
    "freeze-moment": Kind(freeze_for_a_moment, {"HOROVOD_GLOO_TIMEOUT_SECONDS": "4"}),
    "slow": Kind(slow_down),
    "starve": Kind(starve),
    "launcher-kill": Kind(end_launcher(signal.SIGKILL)),
    "launcher-term": Kind(end_launcher(signal.SIGTERM)),
    "launcher-int": Kind(end_launcher(signal.SIGINT)),
    "driver-kill": Kind(kill_driver),
    "driver-freeze": Kind(freeze_driver_for_a_moment),
    "cut-network": Kind(cut_network, SHORT_TIMEOUT, OWN_NETWORK, ("tcp",)),
    "cut-connection": Kind(cut_connection, SHORT_TIMEOUT),
    "garbage": Kind(send_garbage),
    "flood-starting": Kind(flood_while_starting),
    # Over shared memory the ranks' socket is open only while they meet.
    "flood": Kind(flood, transports=("tcp",)),
    "tiny-shm": Kind(work_in_peace, wrapper=TINY_SHM, transports=("shm",)),
    "full-shm": Kind(work_in_peace, wrapper=FULL_SHM, transports=("shm",)),
}


def is_possible(kind: Kind) -> bool:
    """Whether this machine allows it: not every user may create namespaces."""
    if not kind.wrapper:
        return True
    trial = subprocess.run([*kind.wrapper, "true"], capture_output=True)
    return trial.returncode == 0
