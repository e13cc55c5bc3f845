"""`horovod.run`: a Python function as a job.

The launcher runs as a child process. It reads the pickled function from its standard input, serves
it to the ranks, and writes their results to a pipe: for each rank in order, the length as an
unsigned 64-bit little-endian number and then that many bytes of pickle. If an exception ended the
job, the pipe has one such piece, JSON, about the rank that failed first.
"""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

KEPT_ERROR_LINES = 40
DRAIN_SECONDS = 10.0
"""How long output may still arrive after the launcher has ended."""


def _explain(code: int, received: bytes, last_lines: Sequence[str]) -> str:
    """The text of the exception that reports a failure.

    That is the exception of the rank that failed first, or, if it ended in another way, what the
    launcher wrote about it.
    """
    message = f"the job failed: horovodrun ended with code {code}"
    if received:
        (piece,) = _pieces(received)
        report = json.loads(piece)
        place = f"rank {report['rank']} on host {report['host']}"
        return f"{message}; {place} failed first:\n{_printable(report['traceback']).rstrip()}"
    if last_lines:
        return f"{message}; its last messages were:\n" + "".join(last_lines).rstrip()
    return message


def _printable(text: str) -> str:
    """A text without what would command a terminal."""
    return "".join(c if c in "\n\t" or c.isprintable() else repr(c)[1:-1] for c in text)


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Sequence[int] | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: int | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: bool | int | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    network_interfaces: Sequence[str] | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Any]:
    """Calls a function on every rank of a new job and returns the results, by rank.

    Raises RuntimeError if the job fails, with the traceback of the rank that failed first. Ranks
    print theirs only if `output_filename` asks for files of their output.
    """
    num_proc = _renamed(num_proc, np, "np", "num_proc")
    min_num_proc = _renamed(min_num_proc, min_np, "min_np", "min_num_proc")
    max_num_proc = _renamed(max_num_proc, max_np, "max_np", "max_num_proc")
    _refuse_elastic(
        min_num_proc=min_num_proc,
        max_num_proc=max_num_proc,
        slots=slots,
        reset_limit=reset_limit,
        cooldown_range=cooldown_range,
        host_discovery_script=host_discovery_script,
    )
    num_proc = 1 if num_proc is None else num_proc
    if hosts is not None and hostfile is not None:
        raise ValueError("hosts and hostfile cannot both be given")
    if use_gloo and use_mpi:
        raise ValueError("use_gloo and use_mpi cannot both be given")
    options: list[tuple[str, Any]] = [
        ("-np", num_proc),
        ("-H", hosts),
        ("--hostfile", hostfile),
        ("--start-timeout", start_timeout),
        ("--ssh-port", ssh_port),
        ("--ssh-identity-file", ssh_identity_file),
        ("--disable-cache", bool(disable_cache)),
        ("--output-filename", output_filename),
        ("--verbose", bool(verbose)),
        ("--gloo", bool(use_gloo)),
        ("--mpi", bool(use_mpi)),
        ("--network-interfaces", _interfaces(network_interface, network_interfaces)),
    ]
    arguments = _command_line(options)
    if mpi_args is not None:
        arguments.append(f"--mpi-args={mpi_args}")
    return run_function(
        func, arguments, num_proc, executable, args, kwargs, output_filename is not None
    )


def run_function(
    func: Callable[..., Any],
    arguments: list[str],
    num_proc: int,
    executable: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    prints_exceptions: bool = False,
) -> list[Any]:
    """Does what `run` does, with the options of `horovodrun` as they are typed."""
    call = _pickled_call(func, args, kwargs, prints_exceptions)
    return _run_job(executable or sys.executable, arguments, num_proc, call)


def _renamed(value: int | None, old_value: int | None, old: str, new: str) -> int | None:
    if old_value is None:
        return value
    warnings.warn(f"the argument {old} is deprecated; use {new}", DeprecationWarning, stacklevel=3)
    if value is not None:
        raise ValueError(f"{new} and {old} cannot both be given; leave out {old}")
    return old_value


def _refuse_elastic(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise NotImplementedError(
                f"{name} belongs to elastic jobs, which this version cannot run"
            )


def _interfaces(csv: str | None, names: Sequence[str] | None) -> str | None:
    if csv is not None:
        warnings.warn(
            "the argument network_interface is deprecated; use network_interfaces",
            DeprecationWarning,
            stacklevel=3,
        )
        if names is not None:
            raise ValueError("network_interface and network_interfaces cannot both be given")
        return csv
    return ",".join(names) if names else None


def _command_line(options: Sequence[tuple[str, Any]]) -> list[str]:
    """Options without a value are left out; True stands for a flag."""
    arguments = []
    for option, value in options:
        if value is True:
            arguments.append(option)
        elif value is not None and value is not False:
            arguments += [option, str(value)]
    return arguments


def _pickled_call(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    prints_exceptions: bool,
) -> bytes:
    import cloudpickle

    call = cloudpickle.dumps((func, tuple(args), dict(kwargs or {})))
    return pickle.dumps(([entry for entry in sys.path if entry], prints_exceptions, call))


def _run_job(executable: str, arguments: list[str], num_proc: int, call: bytes) -> list[Any]:
    results_read, results_write = os.pipe()
    try:
        launcher = subprocess.Popen(
            [
                *[executable, "-m", "horovod.runner.launch", *arguments],
                *["--function-stdin", "--results-fd", str(results_write)],
                *[executable, "-m", "horovod.runner.run_task"],
            ],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[results_write],
        )
    except BaseException:
        os.close(results_read)
        raise
    finally:
        os.close(results_write)
    with launcher:
        return _finish_job(launcher, open(results_read, "rb"), num_proc, call)


def _finish_job(
    launcher: subprocess.Popen[bytes], results_pipe: IO[bytes], num_proc: int, call: bytes
) -> list[Any]:
    last_lines: deque[str] = deque(maxlen=KEPT_ERROR_LINES)
    received = bytearray()
    # Now the thread's, which closes it; the launcher's end may come sooner.
    stderr, launcher.stderr = launcher.stderr, None
    readers = [
        _start_thread("horovod-errors", lambda: _forward_errors(stderr, last_lines)),
        _start_thread("horovod-results", lambda: received.extend(_read_all(results_pipe))),
    ]
    try:
        _send(launcher.stdin, call)
        code = launcher.wait()
    except BaseException:
        launcher.terminate()
        raise
    finally:
        for reader in readers:
            reader.join(DRAIN_SECONDS)
    if code != 0:
        raise RuntimeError(_explain(code, bytes(received), last_lines))
    results = _results(bytes(received))
    if len(results) != num_proc:
        raise RuntimeError(
            f"the job ended without error, but only {len(results)} of {num_proc} results arrived"
        )
    return results


def _start_thread(name: str, work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(name=name, target=work, daemon=True)
    thread.start()
    return thread


def _send(stream: IO[bytes] | None, content: bytes) -> None:
    """Writes and closes; a launcher that ended early is reported by its exit code instead."""
    assert stream is not None
    try:
        stream.write(content)
        stream.close()
    except BrokenPipeError:
        pass


def _forward_errors(stream: IO[bytes] | None, last_lines: deque[str]) -> None:
    """Passes the launcher's error output on, which is not ours in a notebook, and keeps its end."""
    assert stream is not None
    with stream:
        for line in stream:
            text = line.decode(errors="replace")
            last_lines.append(text)
            sys.stderr.write(text)
            sys.stderr.flush()


def _read_all(stream: IO[bytes]) -> bytes:
    with stream:
        return stream.read()


def _results(content: bytes) -> list[Any]:
    import cloudpickle

    return [cloudpickle.loads(piece) for piece in _pieces(content)]


def _pieces(content: bytes) -> Iterator[bytes]:
    """What the results pipe has brought, without the lengths."""
    start = 0
    while start < len(content):
        (length,) = struct.unpack_from("<Q", content, start)
        start += 8
        yield content[start : start + length]
        start += length
