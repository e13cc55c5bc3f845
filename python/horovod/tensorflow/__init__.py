"""Horovod for TensorFlow: collectives on tensors, and what trains with them."""

from __future__ import annotations

try:
    import tensorflow as _tensorflow
except ModuleNotFoundError as _error:
    if _error.name != "tensorflow":
        raise
    raise ImportError(
        "horovod.tensorflow needs TensorFlow, which is not installed: pip install tensorflow"
    ) from _error

from horovod import _keras
from horovod.common.basics import (
    counters,
    cross_rank,
    cross_ranks,
    cross_size,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_ranks,
    local_size,
    mpi_enabled,
    mpi_threads_supported,
    rank,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from horovod.common.build import (
    ccl_built,
    check_extension,
    cuda_built,
    ddl_built,
    gloo_built,
    gpu_available,
    mpi_built,
    nccl_built,
    rocm_built,
)
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.common.util import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    handle_average_backwards_compatibility,
    split_list,
)
from horovod.tensorflow import elastic, gradients  # noqa: F401
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.functions import (
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.mpi_ops import _allreduce as _allreduce
from horovod.tensorflow.mpi_ops import _grouped_allreduce as _grouped_allreduce
from horovod.tensorflow.mpi_ops import (
    allgather,
    alltoall,
    barrier,
    broadcast,
    broadcast_,
    check_num_rank_power_of_2,
    grouped_allgather,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)
from horovod.tensorflow.optimizer import DistributedOptimizer
from horovod.tensorflow.optimizer import _DistributedAdasumOptimizer as _DistributedAdasumOptimizer
from horovod.tensorflow.optimizer import _DistributedOptimizer as _DistributedOptimizer
from horovod.tensorflow.reductions import (
    allreduce,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from horovod.tensorflow.sync_batch_norm import SyncBatchNormalization
from horovod.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape
from horovod.tensorflow.tape import _DistributedGradientTape as _DistributedGradientTape
from horovod.tensorflow.util import _cache as _cache
from horovod.tensorflow.util import _executing_eagerly as _executing_eagerly
from horovod.tensorflow.util import _make_subgraph as _make_subgraph
from horovod.tensorflow.util import refs_to_vars, vars_to_refs

__all__ = [
    "Adasum",
    "Average",
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HorovodInternalError",
    "LocalGradientAggregationHelper",
    "Max",
    "Min",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNormalization",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "ccl_built",
    "check_extension",
    "check_num_rank_power_of_2",
    "counters",
    "cross_rank",
    "cross_ranks",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "gpu_available",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "handle_average_backwards_compatibility",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_ranks",
    "local_size",
    "local_size_op",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reducescatter",
    "refs_to_vars",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "size_op",
    "split_list",
    "start_timeline",
    "stop_timeline",
    "vars_to_refs",
]

_keras.watch(_tensorflow.keras)
