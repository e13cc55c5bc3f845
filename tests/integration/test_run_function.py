"""`horovod.run`: functions as jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

import horovod


def place_and_sum(factor: int, offset: int = 0) -> tuple[int, int, float]:
    import horovod.numpy as hvd

    hvd.init()
    total = hvd.allreduce(float(factor * hvd.rank() + offset), op=hvd.Sum)
    return hvd.rank(), hvd.size(), float(total)


@pytest.mark.parametrize("num_proc", [1, 3])
def test_results_by_rank(num_proc: int) -> None:
    results = horovod.run(place_and_sum, (2,), {"offset": 1}, num_proc=num_proc)
    total = float(sum(2 * rank + 1 for rank in range(num_proc)))
    assert results == [(rank, num_proc, total) for rank in range(num_proc)]


def test_one_process_is_the_default() -> None:
    assert horovod.run(lambda: "done") == ["done"]


def test_options_reach_the_launcher(tmp_path: Path) -> None:
    results = horovod.run(
        lambda: print("to the file"),
        num_proc=2,
        hosts="localhost:2",
        start_timeout=30,
        ssh_port=22,
        ssh_identity_file="unused",
        disable_cache=True,
        output_filename=str(tmp_path / "output"),
        use_gloo=True,
        network_interfaces=["lo"],
    )
    assert results == [None, None]
    assert any("to the file" in file.read_text() for file in tmp_path.rglob("stdout"))


def test_large_arguments_and_results() -> None:
    results = horovod.run(lambda data: data * 2, (b"x" * 3_000_000,), num_proc=2)
    assert [len(result) for result in results] == [6_000_000] * 2


def test_a_failing_function_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        import horovod.numpy as hvd

        hvd.init()
        if hvd.rank() == 1:
            raise KeyError("the reason")
        hvd.allreduce(1.0)

    with pytest.raises(RuntimeError, match="the reason") as caught:
        horovod.run(fail, num_proc=2)
    assert "the first error was" in str(caught.value)
    assert "ended with code" in str(caught.value)
    assert "the reason" in capfd.readouterr().err


def test_a_result_that_cannot_be_sent() -> None:
    import threading

    with pytest.raises(RuntimeError, match="pickle"):
        horovod.run(lambda: threading.Lock())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"hosts": "localhost:1", "hostfile": "hosts"}, ValueError),
        ({"use_gloo": True, "use_mpi": True}, ValueError),
        ({"min_num_proc": 1}, NotImplementedError),
        ({"max_num_proc": 1}, NotImplementedError),
        ({"host_discovery_script": "hosts.sh"}, NotImplementedError),
    ],
)
def test_options_are_checked(options: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        horovod.run(place_and_sum, (1,), num_proc=1, **options)


def test_the_old_name_of_num_proc() -> None:
    with pytest.warns(DeprecationWarning, match="num_proc"):
        assert horovod.run(lambda: 1, np=2) == [1, 1]
