"""Programs for upstream Horovod find every name where they look for it: what needs no framework,
and PyTorch. TensorFlow and Keras are in `test_tensorflow_names.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from upstream_names import BASICS, COMMON, REDUCTIONS, RUNNER, TORCH, missing

import horovod.numpy as hvd
from horovod.common import basics, process_sets, util


@pytest.fixture
def job() -> Iterator[None]:
    hvd.init()
    yield
    hvd.shutdown()


@pytest.mark.parametrize("module", [*COMMON, *RUNNER])
def test_every_name_of_upstream_exists(module: str) -> None:
    assert missing(module, {**COMMON, **RUNNER}[module]) == []


@pytest.mark.parametrize("module", TORCH)
def test_every_name_of_upstream_exists_for_torch(module: str) -> None:
    pytest.importorskip("torch")
    assert missing(module, TORCH[module]) == []


def test_the_basics_as_an_object(job: None) -> None:
    answers = basics.HorovodBasics("ignored/path.py", "mpi_lib_v2")
    assert (answers.rank(), answers.size(), answers.local_rank()) == (0, 1, 0)
    assert answers.gloo_enabled() and answers.mpi_built() and answers.nccl_built() == 0
    wanted = f"{BASICS} {REDUCTIONS} is_homogeneous".split()
    assert [name for name in wanted if not hasattr(answers, name)] == []
    assert process_sets._basics.size() == 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="nonsense"):
        process_sets.nonsense  # noqa: B018


def test_small_functions_of_upstream() -> None:
    calls = []

    @util._cache
    def square(number: int) -> int:
        calls.append(number)
        return number * number

    assert [square(3), square(3), square(2)] == [9, 9, 4]
    assert calls == [3, 2]
    reduction = util.get_average_backwards_compatibility_fun(basics.HorovodBasics())
    assert reduction(None, None) == util.Average
    assert reduction(util.Max, None) == util.Max
    assert {"torch", "tensorflow"} <= set(util.EXTENSIONS)
    util.check_installed_version("pytorch", "2.0.0")
    assert util.get_extension_full_path("ignored", "mpi_lib_v2").endswith(".so")
    assert util.get_ext_suffix().endswith(".so")


class TestTorchOptimizer:
    """What programs do with the class of a distributed optimizer."""

    @pytest.fixture
    def model(self, job: None) -> Any:
        torch = pytest.importorskip("torch")
        return torch.nn.Linear(2, 1)

    def test_a_wrapped_optimizer_is_an_instance(self, model: Any) -> None:
        import torch

        import horovod.torch as hvd_torch

        plain = torch.optim.SGD(model.parameters(), lr=0.1)
        wrapped = hvd_torch.DistributedOptimizer(plain, model.named_parameters())
        assert isinstance(wrapped, hvd_torch._DistributedOptimizer)
        assert isinstance(wrapped, torch.optim.SGD)
        assert not isinstance(plain, hvd_torch._DistributedOptimizer)
        assert isinstance(hvd_torch._DistributedOptimizer, type)

    def test_attributes_that_programs_reach_for(self, model: Any) -> None:
        import torch

        import horovod.torch as hvd_torch

        plain = torch.optim.SGD(model.parameters(), lr=0.1)
        wrapped = hvd_torch.DistributedOptimizer(
            plain, model.named_parameters(), hvd_torch.Compression.fp16, 3
        )
        assert set(wrapped._parameter_names.values()) == {"weight", "bias"}
        assert wrapped.backward_passes_per_step == 3
        assert wrapped._requires_update == set()  # one rank: nothing to combine
        model.weight.grad = torch.full((1, 2), 2.0)
        handle, ctx = wrapped._allreduce_grad_async(model.weight)
        reduced = hvd_torch.Compression.fp16.decompress(hvd_torch.synchronize(handle), ctx)
        assert reduced.tolist() == [[2.0, 2.0]] and reduced.dtype == torch.float32

    def test_programs_derive_from_the_class(self, model: Any) -> None:
        import torch

        import horovod.torch as hvd_torch

        class Mine(hvd_torch._DistributedOptimizer, torch.optim.SGD):  # type: ignore[misc]
            pass

        groups = [{"params": model.parameters(), "lr": 0.5}]
        mine = Mine(groups, model.named_parameters(), hvd_torch.Compression.none)
        assert mine.param_groups[0]["lr"] == 0.5
        before = copy.deepcopy(model.weight.detach())
        model(torch.ones(1, 2)).sum().backward()
        mine.step()
        assert torch.allclose(model.weight, before - 0.5)

    def test_autograd_functions_take_the_arguments_of_upstream(self, model: Any) -> None:
        import torch

        import horovod.torch as hvd_torch
        from horovod.torch import mpi_ops

        tensor = torch.ones(2, requires_grad=True)
        scaling = (1.0, 1.0, hvd_torch.global_process_set)
        result = mpi_ops.HorovodAllreduce.apply(tensor, None, "x", hvd_torch.Sum, *scaling)
        result.sum().backward()
        assert tensor.grad is not None and tensor.grad.tolist() == [1.0, 1.0]
        (group,) = mpi_ops.HorovodGroupedAllreduce.apply(None, "y", None, *scaling, tensor)
        assert group.tolist() == [1.0, 1.0]
