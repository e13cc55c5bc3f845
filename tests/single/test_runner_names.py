"""What programs do with names of upstream's launcher: hosts, threads, and starting jobs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from horovod.runner import _HorovodArgs  # type: ignore[attr-defined]
from horovod.runner.common.util.env import (
    get_env_rank_and_size,
    is_exportable,
    is_kubeflow_mpi,
)
from horovod.runner.common.util.hosts import (
    INVALID_SLOT_INFO,
    HostInfo,
    SlotInfo,
    get_host_assignments,
    parse_host_files,
    parse_hosts,
    parse_hosts_and_slots,
)
from horovod.runner.compatibility import command_line
from horovod.runner.launch import _run, parse_args  # type: ignore[attr-defined]
from horovod.runner.util.threads import (
    execute_function_multithreaded,
    in_thread,
    on_event,
)


def test_functions_in_threads() -> None:
    assert execute_function_multithreaded(divmod, [(7, 2), (9, 4)]) == {0: (3, 1), 1: (2, 1)}
    assert execute_function_multithreaded(divmod, []) == {}
    with pytest.raises(ZeroDivisionError):
        execute_function_multithreaded(divmod, [(7, 2), (1, 0)], max_concurrent_executions=1)
    called = threading.Event()
    assert execute_function_multithreaded(called.set, [()], block_until_all_done=False) is None
    assert called.wait(10)


def test_variables_for_other_hosts() -> None:
    assert is_exportable("PATH") and is_exportable("MY_OLDPWD")
    for name in ("BASH_FUNC_ls%%", "OLDPWD", "CUDA_VISIBLE_DEVICES", "_HOROVOD_SECRET_KEY"):
        assert not is_exportable(name)
    assert is_kubeflow_mpi({"OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh"})
    assert not is_kubeflow_mpi({})


def test_hosts() -> None:
    assert parse_hosts("a:2, b:4") == [HostInfo("a", 2), HostInfo("b", 4)]
    assert parse_hosts_and_slots("a:2,b:4") == (["a", "b"], {"a": 2, "b": 4})
    for wrong in ("a", "a:", "a:-1", "a:2,", "a b:2"):
        with pytest.raises(ValueError, match="worker-1:4"):
            parse_hosts(wrong)


def test_a_host_file(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("# all\na slots=2\n\nb   slots = 4  # the large one\n")
    assert parse_host_files(str(tmp_path / "hosts")) == "a:2,b:4"
    (tmp_path / "hosts").write_text("a\n")
    with pytest.raises(ValueError, match="slots=4"):
        parse_host_files(str(tmp_path / "hosts"))


def test_ranks_of_hosts() -> None:
    slots = get_host_assignments(parse_hosts("a:3,b:1,c:2"), 6)
    assert [slot.hostname for slot in slots] == ["a", "a", "a", "b", "c", "c"]
    assert slots[5] == SlotInfo("c", 5, 1, 1, 6, 2, 2)
    assert slots[5].to_response_string() == "5,6,1,2,1,2"
    assert [slot.size for slot in get_host_assignments(parse_hosts("a:2,b:4"), 2, 3)] == [3] * 3
    assert INVALID_SLOT_INFO.to_response_string() == "-1,-1,-1,-1,-1,-1"
    with pytest.raises(ValueError, match=r"7 processes .* 6 slots"):
        get_host_assignments(parse_hosts("a:2,b:4"), 7)


def test_rank_and_size_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("HOROVOD_", "OMPI_", "PMI_")):
            monkeypatch.delenv(name)
    assert get_env_rank_and_size() == (0, 1)
    monkeypatch.setenv("PMI_RANK", "2")
    monkeypatch.setenv("PMI_SIZE", "3")
    assert get_env_rank_and_size() == (2, 3)
    monkeypatch.setenv("HOROVOD_RANK", "1")
    monkeypatch.setenv("HOROVOD_SIZE", "4")
    assert get_env_rank_and_size() == (1, 4)


def test_threads() -> None:
    results: list[int] = []
    in_thread(results.append, (1,)).join(10)
    in_thread(lambda: 1 // 0, silent=True).join(10)
    event, stop = threading.Event(), threading.Event()
    waiting = on_event(event, results.append, (2,))
    never = on_event(threading.Event(), results.append, (3,), stop, 0.01)
    stop.set()
    event.set()
    waiting.join(10)
    never.join(10)
    assert results == [1, 2]
    with pytest.raises(ValueError, match="tuple"):
        in_thread(results.append, 1)  # type: ignore[arg-type]


def test_options_are_read_and_written() -> None:
    line = "-np 4 -H a:2,b:2 -p 12345 --no-autotune --cycle-time-ms 2.5 --network-interface e0,e1"
    args = parse_args([*line.split(), "python", "train.py", "-np", "8"])
    assert isinstance(args, _HorovodArgs)
    assert (args.num_proc, args.hosts, args.ssh_port, args.autotune) == (4, "a:2,b:2", 12345, False)
    assert args.nics == {"e0", "e1"} and args.verbose is None
    assert args.command == ["python", "train.py", "-np", "8"]
    assert command_line(args) == [
        "--num-proc=4",
        "--hosts=a:2,b:2",
        "--ssh-port=12345",
        "--network-interfaces",
        "e0,e1",
        "--cycle-time-ms=2.5",
        "--no-autotune",
    ]


def test_every_option_is_known_to_horovodrun() -> None:
    from horovod.runner.compatibility import _OPTIONS

    done = subprocess.run(
        [sys.executable, "-m", "horovod.runner.launch", "--help"], capture_output=True, text=True
    )
    # Of MPI and elastic training, and the default or opposite of an option that is listed.
    unlisted = {"use_mpi", "use_jsrun", "mpi_args", "binding_args", "log_with_timestamp"}
    unlisted |= {"min_num_proc", "max_num_proc", "slots", "elastic_timeout", "reset_limit"}
    unlisted |= {"cooldown_range", "host_discovery_script"}
    for option in _OPTIONS:
        if option.attribute not in unlisted:
            assert option.spellings.split()[-1] in done.stdout, option.attribute


def test_a_command_is_run(tmp_path: Path) -> None:
    args = _HorovodArgs()
    args.num_proc = 2
    path = tmp_path / "ranks"
    args.command = ["sh", "-c", f"echo $HOROVOD_RANK >> {path}"]
    assert _run(args) is None
    assert sorted(path.read_text().split()) == ["0", "1"]
    args.command = ["sh", "-c", "exit 3"]
    with pytest.raises(RuntimeError, match="code 3"):
        _run(args)


def test_a_function_is_run() -> None:
    args = _HorovodArgs()
    args.num_proc = 2
    args.executable = sys.executable
    args.run_func = lambda: int(os.environ["HOROVOD_RANK"])
    assert _run(args) == [0, 1]
