"""The public names of `horovod.torch` and how they are called, as users know them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402

ON_SET = "process_set=GLOBAL"
SCALED = f"prescale_factor=1.0, postscale_factor=1.0, {ON_SET}"
IN_PLACE = f"average=None, name=None, op=None, {SCALED}"
REDUCED = f"average=None, name=None, compression=NONE, op=None, {SCALED}"
SHARED = f"op=AVERAGE, {ON_SET}, prescale_factor=1.0, postscale_factor=1.0"
SIGNATURES = {
    "allreduce": f"tensor, {REDUCED}",
    "allreduce_": f"tensor, {IN_PLACE}",
    "allreduce_async": f"tensor, {IN_PLACE}",
    "allreduce_async_": f"tensor, {IN_PLACE}",
    "grouped_allreduce": f"tensors, {REDUCED}",
    "grouped_allreduce_": f"tensors, {IN_PLACE}",
    "grouped_allreduce_async": f"tensors, {IN_PLACE}",
    "grouped_allreduce_async_": f"tensors, {IN_PLACE}",
    "sparse_allreduce_async": f"tensor, name, op, {ON_SET}",
    "allgather": f"tensor, name=None, {ON_SET}",
    "allgather_async": f"tensor, name=None, {ON_SET}",
    "grouped_allgather": f"tensors, name=None, {ON_SET}",
    "grouped_allgather_async": f"tensors, name=None, {ON_SET}",
    "broadcast": f"tensor, root_rank, name=None, {ON_SET}",
    "broadcast_": f"tensor, root_rank, name=None, {ON_SET}",
    "broadcast_async": f"tensor, root_rank, name=None, {ON_SET}",
    "broadcast_async_": f"tensor, root_rank, name=None, {ON_SET}",
    "alltoall": f"tensor, splits=None, name=None, {ON_SET}",
    "alltoall_async": f"tensor, splits=None, name=None, {ON_SET}",
    "reducescatter": f"tensor, name=None, compression=NONE, {SHARED}",
    "reducescatter_async": f"tensor, name=None, {SHARED}",
    "grouped_reducescatter": f"tensors, name=None, compression=NONE, {SHARED}",
    "grouped_reducescatter_async": f"tensors, name=None, {SHARED}",
    "join": "device=-1",
    "barrier": ON_SET,
    "poll": "handle",
    "synchronize": "handle",
    "DistributedOptimizer": (
        "optimizer, named_parameters=None, compression=NONE, backward_passes_per_step=1, "
        "op=AVERAGE, gradient_predivide_factor=1.0, num_groups=0, groups=None, "
        f"sparse_as_dense=False, {ON_SET}"
    ),
    "broadcast_parameters": "params, root_rank",
    "broadcast_optimizer_state": "optimizer, root_rank, model=None",
    "broadcast_object": f"obj, root_rank=0, name=None, {ON_SET}",
    "allgather_object": "obj, name=None",
    "SyncBatchNorm": "num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",
    "init": "comm=None, process_sets=None",
    "start_timeline": "file_path, mark_cycles=False",
    "ProcessSet": "ranks_or_comm",
}
WORDS = {
    id(hvd.global_process_set): "GLOBAL",
    id(hvd.Compression.none): "NONE",
}


def written(function: Callable[..., Any]) -> str:
    """Parameters with their defaults."""
    parts = []
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        word = WORDS.get(id(default), repr(default))
        if name == "op" and default == hvd.Average:
            word = "AVERAGE"
        parts.append(name if default is parameter.empty else f"{name}={word}")
    return ", ".join(parts)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    parameters = written(getattr(hvd, name))
    # Parameters that we have added at the end do not affect callers of upstream's signature.
    assert parameters == SIGNATURES[name] or parameters.startswith(SIGNATURES[name] + ", ")


WITHOUT_ARGUMENTS = (
    "shutdown is_initialized stop_timeline size local_size cross_size rank local_rank cross_rank "
    "mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built nccl_built ddl_built "
    "ccl_built cuda_built rocm_built"
)


@pytest.mark.parametrize("name", WITHOUT_ARGUMENTS.split())
def test_without_arguments(name: str) -> None:
    assert written(getattr(hvd, name)) in ("", "verbose=False")


def test_other_names() -> None:
    reductions = [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product]
    assert reductions == [0, 1, 2, 3, 4, 5]
    assert issubclass(hvd.HorovodInternalError, RuntimeError)
    assert issubclass(hvd.SyncBatchNorm, torch.nn.modules.batchnorm._BatchNorm)
    assert hvd.Compression.none and hvd.Compression.fp16 and hvd.Compression.bf16
    assert hvd.elastic.TorchState and hvd.elastic.ElasticSampler and hvd.elastic.run
    assert callable(hvd.add_process_set) and callable(hvd.remove_process_set)
    from horovod.torch.mpi_ops import is_homogeneous

    assert callable(is_homogeneous)
