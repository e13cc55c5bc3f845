"""The small functions of `horovod.common`."""

from __future__ import annotations

import os

import pytest

from horovod.common import build, util
from horovod.common.exceptions import (
    HorovodInternalError,
    HorovodVersionMismatchError,
    HostsUpdatedInterrupt,
)
from horovod.common.process_sets import ProcessSet


def test_split_list() -> None:
    assert util.split_list([1, 2, 3, 4, 5], 3) == [[1, 2], [3, 4], [5]]
    assert util.split_list([1], 3) == [[1], [], []]


def test_num_rank_is_power_2() -> None:
    assert [n for n in range(10) if util.num_rank_is_power_2(n)] == [1, 2, 4, 8]


def test_average_and_op() -> None:
    assert util.handle_average_backwards_compatibility(None, None) == util.Average
    assert util.handle_average_backwards_compatibility(util.Max, None) == util.Max
    with pytest.warns(DeprecationWarning):
        assert util.handle_average_backwards_compatibility(None, False) == util.Sum
    with pytest.raises(ValueError, match="both"):
        util.handle_average_backwards_compatibility(util.Sum, True)


def test_the_numbers_of_the_reductions() -> None:
    names = (util.Average, util.Sum, util.Adasum, util.Min, util.Max, util.Product)
    assert names == (0, 1, 2, 3, 4, 5)


def test_env_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVD_TEST_SET", "before")
    monkeypatch.delenv("HVD_TEST_UNSET", raising=False)
    changed = util.env(HVD_TEST_SET="within", HVD_TEST_UNSET="within", HVD_TEST_NONE=None)
    with pytest.raises(KeyError), changed:
        assert os.environ["HVD_TEST_SET"] == os.environ["HVD_TEST_UNSET"] == "within"
        assert "HVD_TEST_NONE" not in os.environ
        raise KeyError
    assert os.environ["HVD_TEST_SET"] == "before"
    assert "HVD_TEST_UNSET" not in os.environ


def test_is_iterable() -> None:
    assert util.is_iterable([1])
    assert not util.is_iterable(1)


@pytest.mark.parametrize(
    ("version", "target", "expected"),
    [
        ("2.10.0", "2.9.1", True),
        ("2.1.0+cpu", "2.1.0", True),
        ("2.1rc1", "2.1.0", True),
        ("1.9.9", "2.0.0", False),
    ],
)
def test_versions(version: str, target: str, expected: bool) -> None:
    assert util.is_version_greater_equal_than(version, target) is expected


@pytest.mark.parametrize(("version", "target"), [("1.0.0", "1.0"), (1, "1.0.0"), ("x", "1.0.0")])
def test_versions_that_cannot_be_compared(version: object, target: str) -> None:
    with pytest.raises(ValueError, match="version"):
        util.is_version_greater_equal_than(version, target)  # type: ignore[arg-type]


def test_extension_available(monkeypatch: pytest.MonkeyPatch) -> None:
    assert util.extension_available("numpy")
    assert not util.extension_available("no_such_framework")
    # Looked for once: the answers stay although nothing could be found any more.
    monkeypatch.setattr(build, "_can_find", lambda module: pytest.fail(f"looked for {module}"))
    assert util.extension_available("numpy")
    assert not util.extension_available("no_such_framework")


def test_exceptions() -> None:
    assert issubclass(HorovodInternalError, RuntimeError)
    assert HostsUpdatedInterrupt(skip_sync=True).skip_sync
    mismatch = HorovodVersionMismatchError("torch", "1", "2")
    assert isinstance(mismatch, ImportError)
    assert (mismatch.name, mismatch.version, mismatch.installed_version) == ("torch", "1", "2")


def test_process_set_describes_ranks() -> None:
    described = ProcessSet([2, 0, 1])
    assert described.ranks == [0, 1, 2]
    assert str(described) == "ProcessSet(process_set_id=None, ranks=[0, 1, 2], mpi_comm=None)"
    assert described.size() is None
    assert described.rank() is None
    for wrong in ([0, "1"], 17):
        with pytest.raises(ValueError, match=r".+"):
            ProcessSet(wrong)  # type: ignore[arg-type]


def test_build_questions_are_answered_without_importing_anything() -> None:
    assert util.gloo_built(verbose=True)
    assert util.mpi_built(verbose=True)
    assert util.nccl_built() == 0
    assert not util.gpu_available("torch")
    util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", "unused", "mpi_lib_v2")
