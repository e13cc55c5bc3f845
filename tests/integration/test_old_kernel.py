"""Jobs on the kernels that come with an old glibc: calls that Linux 3.10 (RHEL 7) lacks answer
"Function not implemented", by a filter that a job inherits from the shell it is typed in."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

HOROVODRUN = Path(sys.executable).with_name("horovodrun")

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="numbers of system calls are those of x86_64"
)

MEMFD_CREATE = 319
NEWER = {
    "renameat2": 316,
    "getrandom": 318,
    "memfd_create": MEMFD_CREATE,
    "copy_file_range": 326,
    "statx": 332,
    "pidfd_send_signal": 424,
    "pidfd_open": 434,
    "clone3": 435,
    "close_range": 436,
    "openat2": 437,
    "faccessat2": 439,
}

# Loads the number of the call, compares, and allows it or answers with an error number.
FILTERED = """
import ctypes, errno, os, struct, sys

calls = [int(call) for call in sys.argv[1].split(",")]
steps = [struct.pack("HBBI", 0x20, 0, 0, 0)]
for step, call in enumerate(calls):
    steps.append(struct.pack("HBBI", 0x15, len(calls) - step, 0, call))
steps.append(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
steps.append(struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | errno.ENOSYS))
program = ctypes.create_string_buffer(b"".join(steps))


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


libc = ctypes.CDLL(None, use_errno=True)
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
assert libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
whole = Program(len(steps), ctypes.addressof(program))
if libc.prctl(SECCOMP, FILTER, ctypes.byref(whole)) != 0:
    sys.exit(77)
os.execv(sys.argv[2], sys.argv[2:])
"""

TRAIN = """
import numpy as np
import horovod.numpy as hvd

hvd.init()
total = hvd.allreduce(np.full(100_000, hvd.rank() + 1.0), op=hvd.Sum)
print(f"rank {hvd.rank()}: {total.min():.0f} {total.max():.0f}")
"""


def run_without(*calls: int) -> subprocess.CompletedProcess[str]:
    filtered = [sys.executable, "-c", FILTERED, ",".join(map(str, calls))]
    job = [str(HOROVODRUN), "-np", "2", sys.executable, "-c", TRAIN]
    done = subprocess.run([*filtered, *job], capture_output=True, text=True, timeout=100)
    if done.returncode == 77:
        pytest.skip("this machine lets no process filter its system calls")
    return done


def test_a_kernel_without_newer_calls_trains_over_tcp() -> None:
    done = run_without(*NEWER.values())
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{r}]<stdout>:rank {r}: 3 3" for r in (0, 1)]
    assert "using TCP: rank 0 has no shared memory" in done.stderr


def test_nothing_but_shared_memory_is_missed() -> None:
    """A kernel from 3.17 on has `memfd_create`; no other call is worth a word."""
    done = run_without(*(call for call in NEWER.values() if call != MEMFD_CREATE))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{r}]<stdout>:rank {r}: 3 3" for r in (0, 1)]
    assert done.stderr == ""
