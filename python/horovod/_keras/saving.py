"""Models that come with a distributed optimizer when they are loaded."""

from __future__ import annotations

from typing import Any

from horovod._keras.compilation import is_distributed
from horovod._keras.optimizer import distribute
from horovod._keras.settings import Settings
from horovod._keras.versions import bridge


def load_model(
    keras: Any,
    filepath: Any,
    custom_optimizers: Any,
    custom_objects: dict[str, Any] | None,
    compression: Any,
) -> Any:
    """Loads a model and distributes its optimizer, whose state is kept."""
    objects = {optimizer.__name__: optimizer for optimizer in custom_optimizers or []}
    objects.update(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None or is_distributed(optimizer):
        return model
    compression = bridge(keras).Compression.none if compression is None else compression
    settings = Settings(compression=compression)
    if _knows(optimizer, model):
        distribute(keras, optimizer, settings, in_place=True)
    else:
        fresh = type(optimizer).from_config(optimizer.get_config())
        model.optimizer = distribute(keras, fresh, settings)
    if getattr(model, "jit_compile", False):
        model.jit_compile = False
    return model


def _knows(optimizer: Any, model: Any) -> bool:
    """Whether an optimizer was made for this model. From HDF5, Keras 3 makes it for no variables at
    all if the model has its variables only in layers, and training would fail.
    """
    if not getattr(optimizer, "built", False):
        return True
    known = getattr(optimizer, "_trainable_variables", None)
    return known is None or len(known) == len(model.trainable_variables)
