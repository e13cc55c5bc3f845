"""The names of Keras, and what is said when something is missing.

Not part of a run without Keras: its import takes seconds.
"""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import warnings
from typing import Any

import pytest

keras = pytest.importorskip("keras")

BLOCK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "keras":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
try:
    import horovod.keras
except ImportError as error:
    print(error)
"""
SHARED = {
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Sum",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "callbacks",
    "elastic",
    "global_process_set",
    "init",
    "load_model",
    "local_rank",
    "rank",
    "reducescatter",
    "shutdown",
    "size",
}


def namespaces() -> list[Any]:
    import horovod.keras

    found = [horovod.keras]
    if keras.__version__[0] == "2" or keras.backend.backend() == "tensorflow":
        import horovod.tensorflow.keras

        found.append(horovod.tensorflow.keras)
    return found


def test_a_missing_keras_is_explained() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCK], capture_output=True, text=True, timeout=60, check=False
    )
    assert "pip install keras" in done.stdout


def test_every_exported_name_exists() -> None:
    for namespace in namespaces():
        assert all(hasattr(namespace, name) for name in namespace.__all__)
        assert set(namespace.__all__) >= SHARED | {"PartialDistributedOptimizer", "Adasum"}
        assert len(namespace.callbacks.__all__) == 5
        assert all(hasattr(namespace.callbacks, name) for name in namespace.callbacks.__all__)


def test_elastic_names() -> None:
    for namespace in namespaces():
        assert set(namespace.elastic.__all__) == {
            "CommitStateCallback",
            "KerasState",
            "UpdateBatchStateCallback",
            "UpdateEpochStateCallback",
            "run",
        }
        assert all(hasattr(namespace.elastic, name) for name in namespace.elastic.__all__)


FUNCTIONS = {
    "PartialDistributedOptimizer": (
        "optimizer, name, device_dense, device_sparse, compression, sparse_as_dense, "
        "gradient_predivide_factor, op, backward_passes_per_step, average_aggregated_gradients, "
        "groups, process_set, local_layers, scale_local_gradients"
    ),
    "allgather": "value, name",
    "allreduce": "value, name, average, prescale_factor, postscale_factor, op, compression",
    "broadcast": "value, root_rank, name",
    "broadcast_global_variables": "root_rank",
    "load_model": "filepath, custom_optimizers, custom_objects, compression, legacy_opts",
    "reducescatter": "value, name, op",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_belong_to_their_package(name: str) -> None:
    for namespace in namespaces():
        function = getattr(namespace, name)
        parameters = inspect.signature(function).parameters
        assert ", ".join(parameters) == FUNCTIONS[name]
        if "compression" in parameters:
            assert parameters["compression"].default is namespace.Compression.none
        assert function.__doc__
        assert (function.__module__, function.__qualname__) == (namespace.__name__, name)
        assert pickle.loads(pickle.dumps(function)) is function


def test_callbacks_belong_to_their_package() -> None:
    for namespace in namespaces():
        for module in (namespace.callbacks, namespace.elastic):
            for name in module.__all__:
                exported = getattr(module, name)
                assert exported.__doc__
                assert (exported.__module__, exported.__qualname__) == (module.__name__, name)
                if name.endswith(("Callback", "Checkpoint")):
                    assert issubclass(exported, namespace.keras.callbacks.Callback)
                    assert exported.keras is namespace.keras


def test_old_scripts_compile() -> None:
    import horovod.keras as hvd

    hvd.init()
    try:
        model = keras.Sequential([keras.layers.Dense(1)])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.compile(
                optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)),
                loss="mse",
                experimental_run_tf_function=False,
            )
        told = [w for w in caught if "experimental_run_tf_function is ignored" in str(w.message)]
        if keras.__version__[0] != "2":
            assert [warning.filename for warning in told] == [__file__]
            with pytest.raises(TypeError, match="nonsense"):
                model.compile("sgd", loss="mse", nonsense=True)
    finally:
        hvd.shutdown()


def test_one_rank_trains_alone() -> None:
    import numpy as np

    import horovod.keras as hvd

    hvd.init()
    try:
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse")
        callbacks = [
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback(),
            hvd.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=1),
        ]
        x = np.ones((8, 2), np.float32)
        losses = model.fit(x, x[:, :1], epochs=3, verbose=0, callbacks=callbacks).history["loss"]
        assert losses[-1] < losses[0]
        assert hvd.allreduce(3.0) == 3.0
    finally:
        hvd.shutdown()
