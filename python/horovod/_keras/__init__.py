"""What `horovod.keras` and `horovod.tensorflow.keras` have in common. Functions here are given the
Keras that they are for, as a module.
"""

from __future__ import annotations

from horovod._keras.compilation import watch
from horovod._keras.optimizer import (
    CallableList,
    Distributed,
    create_distributed_optimizer,
    register_local_layers,
)
from horovod._keras.saving import load_model
from horovod._keras.values import (
    allgather,
    allreduce,
    broadcast,
    broadcast_global_variables,
    reducescatter,
)
from horovod._keras.versions import backend_name, bridge, is_keras_3

__all__ = [
    "CallableList",
    "Distributed",
    "allgather",
    "allreduce",
    "backend_name",
    "bridge",
    "broadcast",
    "broadcast_global_variables",
    "create_distributed_optimizer",
    "is_keras_3",
    "load_model",
    "reducescatter",
    "register_local_layers",
    "watch",
]
