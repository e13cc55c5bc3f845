"""The names that upstream Horovod 0.28.1 offers, by module: programs import them, patch them in
their tests, derive from them. What is left out, and why, stands in docs/reference/differences.md.

Names with an underscore are there because programs reach for them.
"""

from __future__ import annotations

import importlib

BASICS = """
    init shutdown is_initialized start_timeline stop_timeline size local_size cross_size rank
    local_rank cross_rank mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built
    nccl_built ddl_built ccl_built cuda_built rocm_built
"""
SETS = "ProcessSet global_process_set add_process_set remove_process_set"
REDUCTIONS = "Average Sum Adasum Min Max Product"
COMPRESSION = "Compressor NoneCompressor FP16Compressor Compression"

TORCH_OPERATIONS = """
    allreduce allreduce_async allreduce_ allreduce_async_ grouped_allreduce grouped_allreduce_async
    grouped_allreduce_ grouped_allreduce_async_ sparse_allreduce_async allgather allgather_async
    grouped_allgather grouped_allgather_async broadcast broadcast_async broadcast_ broadcast_async_
    alltoall alltoall_async reducescatter reducescatter_async grouped_reducescatter
    grouped_reducescatter_async join barrier poll synchronize
"""
TENSORFLOW_OPERATIONS = """
    allgather grouped_allgather broadcast broadcast_ alltoall join rank_op local_rank_op size_op
    local_size_op process_set_included_op check_num_rank_power_of_2 gpu_available is_homogeneous
    handle_average_backwards_compatibility _executing_eagerly _allreduce _grouped_allreduce
"""
KERAS_OPERATIONS = """
    DistributedOptimizer broadcast_global_variables allreduce allgather broadcast reducescatter
    load_model Compression callbacks elastic
"""
KERAS_CALLBACKS = """
    BroadcastGlobalVariablesCallback MetricAverageCallback LearningRateScheduleCallback
    LearningRateWarmupCallback BestModelCheckpoint
"""
KERAS_ELASTIC = """
    KerasState CommitStateCallback UpdateBatchStateCallback UpdateEpochStateCallback run
"""

COMMON = {
    "horovod": "__version__ run",
    "horovod.common.basics": "HorovodBasics ProcessSet global_process_set util",
    "horovod.common.elastic": """
        State ObjectState run_fn notification_manager WorkerNotificationManager HostUpdateResult
        HorovodInternalError HostsUpdatedInterrupt
    """,
    "horovod.common.exceptions": """
        HorovodInternalError HostsUpdatedInterrupt HorovodVersionMismatchError
        get_version_mismatch_message
    """,
    "horovod.common.process_sets": f"{SETS} HorovodBasics _basics is_iterable",
    "horovod.common.util": """
        EXTENSIONS get_ext_suffix get_extension_full_path check_extension extension_available _cache
        gpu_available mpi_built gloo_built nccl_built ddl_built ccl_built env num_rank_is_power_2
        get_average_backwards_compatibility_fun split_list check_installed_version is_iterable
        is_version_greater_equal_than get_version_mismatch_message HorovodVersionMismatchError
    """,
    "horovod.data": "BaseDataLoader AsyncDataLoaderMixin",
    "horovod.data.data_loader_base": "BaseDataLoader AsyncDataLoaderMixin",
}

RUNNER = {
    "horovod.runner": "run _HorovodArgs",
    "horovod.runner.common.util.env": """
        LOG_LEVEL_STR IGNORE_REGEXES KUBEFLOW_MPI_EXEC is_exportable is_kubeflow_mpi
        get_env_rank_and_size
    """,
    "horovod.runner.common.util.hosts": """
        HostInfo SlotInfo INVALID_SLOT_INFO parse_host_files parse_hosts_and_slots parse_hosts
        get_host_assignments
    """,
    "horovod.runner.launch": """
        run_commandline parse_args _run extension_available gloo_built mpi_built nccl_built
        ddl_built ccl_built
    """,
    "horovod.runner.run_task": "main",
    "horovod.runner.util.threads": "in_thread on_event execute_function_multithreaded",
}

TORCH = {
    "horovod.torch": f"""
        {BASICS} {SETS} {REDUCTIONS} {TORCH_OPERATIONS} Compression HorovodInternalError elastic
        allgather_object broadcast_object broadcast_optimizer_state broadcast_parameters
        DistributedOptimizer SyncBatchNorm check_extension _DistributedOptimizer
    """,
    "horovod.torch.compression": COMPRESSION,
    "horovod.torch.elastic": "TorchState ElasticSampler run run_fn init shutdown _reset",
    "horovod.torch.elastic.sampler": "ElasticSampler rank size",
    "horovod.torch.elastic.state": """
        TorchState StateHandler ModelStateHandler OptimizerStateHandler SamplerStateHandler
        get_handler_registry set_handler_registry ObjectState ElasticSampler allgather_object
        broadcast_object broadcast_optimizer_state broadcast_parameters rank
    """,
    "horovod.torch.functions": """
        broadcast_parameters broadcast_optimizer_state broadcast_object allgather_object allgather
        broadcast_ broadcast_async_ synchronize rank size ProcessSet global_process_set
    """,
    "horovod.torch.mpi_ops": f"""
        {BASICS} {SETS} {REDUCTIONS} {TORCH_OPERATIONS} is_homogeneous Compression
        HorovodAllreduce HorovodGroupedAllreduce HorovodAllgather HorovodGroupedAllgather
        HorovodBroadcast HorovodAlltoall HorovodReducescatter HorovodGroupedReducescatter
        HorovodInternalError check_installed_version get_average_backwards_compatibility_fun
        handle_average_backwards_compatibility gpu_available num_rank_is_power_2 _basics _handle_map
    """,
    "horovod.torch.optimizer": """
        DistributedOptimizer _DistributedOptimizer _DistributedAdasumOptimizer split_list
        Compression broadcast_object allreduce_async_ grouped_allreduce_async_ allgather broadcast_
        sparse_allreduce_async synchronize rank size Average Adasum Sum rocm_built ProcessSet
        global_process_set
    """,
    "horovod.torch.sync_batch_norm": """
        SyncBatchNorm allgather_async allreduce_async Sum size synchronize
    """,
}

MXNET_OPERATIONS = """
    allgather grouped_allgather allreduce allreduce_ grouped_allreduce grouped_allreduce_ alltoall
    broadcast broadcast_ reducescatter grouped_reducescatter
"""
MXNET = {
    "horovod.mxnet": f"""
        {BASICS} {SETS} {REDUCTIONS} {MXNET_OPERATIONS} is_homogeneous Compression allgather_object
        broadcast_object broadcast_parameters DistributedOptimizer DistributedTrainer
        check_extension split_list
    """,
    "horovod.mxnet.mpi_ops": MXNET_OPERATIONS,
    "horovod.mxnet.functions": "allgather_object broadcast_object",
    "horovod.mxnet.compression": COMPRESSION,
}
TENSORFLOW = {
    "horovod.tensorflow": f"""
        {BASICS} {SETS} {REDUCTIONS} {TENSORFLOW_OPERATIONS} elastic Compression allreduce
        reducescatter grouped_allreduce grouped_reducescatter allgather_object broadcast_object
        broadcast_object_fn broadcast_variables broadcast_global_variables
        BroadcastGlobalVariablesHook DistributedOptimizer DistributedGradientTape
        PartialDistributedGradientTape SyncBatchNormalization LocalGradientAggregationHelper
        check_extension split_list vars_to_refs refs_to_vars _make_subgraph _cache
        _DistributedOptimizer _DistributedAdasumOptimizer _DistributedGradientTape
    """,
    "horovod.tensorflow.compression": COMPRESSION,
    "horovod.tensorflow.data.compute_service": """
        TfDataServiceConfig tf_data_service send_to_data_service compute_worker_fn
    """,
    "horovod.tensorflow.data.compute_worker": "main",
    "horovod.tensorflow.elastic": """
        TensorFlowKerasState TensorFlowState run run_fn _reset init shutdown rank ObjectState
        HorovodInternalError broadcast_object broadcast_object_fn broadcast_variables
        _executing_eagerly
    """,
    "horovod.tensorflow.functions": """
        broadcast_variables broadcast_object broadcast_object_fn allgather_object allgather
        broadcast broadcast_ rank size ProcessSet global_process_set _cache _executing_eagerly
        _make_subgraph
    """,
    "horovod.tensorflow.gradient_aggregation": """
        LocalGradientAggregationHelper apply_op_to_not_none_tensors get_not_none_from_list size_op
    """,
    "horovod.tensorflow.gradient_aggregation_eager": "LocalGradientAggregationHelperEager size_op",
    "horovod.tensorflow.mpi_ops": f"""
        {BASICS} {SETS} {REDUCTIONS} {TENSORFLOW_OPERATIONS} HorovodInternalError
        check_installed_version get_ext_suffix get_average_backwards_compatibility_fun
        num_rank_is_power_2 _basics _normalize_name
    """,
    "horovod.tensorflow.sync_batch_norm": "SyncBatchNormalization Sum rank size",
    "horovod.tensorflow.util": "_executing_eagerly _make_subgraph _cache vars_to_refs refs_to_vars",
    "horovod.tensorflow.keras": f"""
        {BASICS} {SETS} Average Sum {KERAS_OPERATIONS} is_version_greater_equal_than
    """,
    "horovod.tensorflow.keras.callbacks": f"{KERAS_CALLBACKS} is_version_greater_equal_than",
    "horovod.tensorflow.keras.elastic": f"{KERAS_ELASTIC} TensorFlowKerasState",
    "horovod.keras": f"""
        {BASICS} {KERAS_OPERATIONS} Average Sum Adasum global_process_set
        PartialDistributedOptimizer
    """,
    "horovod.keras.callbacks": KERAS_CALLBACKS,
    "horovod.keras.elastic": KERAS_ELASTIC,
    "horovod._keras": """
        create_distributed_optimizer CallableList broadcast_global_variables allreduce allgather
        broadcast reducescatter load_model
    """,
}


def missing(module: str, names: str) -> list[str]:
    """The names that a module does not have."""
    imported = importlib.import_module(module)
    return [name for name in names.split() if not hasattr(imported, name)]
