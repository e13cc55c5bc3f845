"""What `model.compile` has to do differently for a distributed optimizer.

XLA refuses collectives of TensorFlow, and a loss scale must look at gradients after they were
reduced, or a rank whose gradients overflow would stay away from the reduction. Keras decides about
both in `compile`, without asking the optimizer; so the method is wrapped, once, and behaves as
before for every other optimizer, except that it accepts an argument of old scripts.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import Any

from horovod._keras.versions import is_keras_3

_WATCHED = "_hvd_watched"
_OLD_WORD = "experimental_run_tf_function"


def watch(keras: Any) -> None:
    """Wraps the `compile` method of models, unless that is done already.

    Packages do so when they are imported: in `model.compile(hvd.DistributedOptimizer(...))` Python
    finds the method before there is an optimizer.
    """
    owner = next(each for each in keras.Model.__mro__ if "compile" in vars(each))
    original = vars(owner)["compile"]
    if not hasattr(original, _WATCHED):
        owner.compile = _watched(keras, original)


def keras_of(optimizer: Any, default: Any) -> Any:
    """`tf_keras`, if the optimizer is one of those and `keras` means Keras 3."""
    if type(optimizer)._hvd_plain.__module__.startswith("tf_keras"):
        import tf_keras

        return tf_keras
    return default


def _watched(keras: Any, original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        _drop_old_word(signature, kwargs)
        bound = signature.bind(self, *args, **kwargs)
        optimizer = bound.arguments.get("optimizer")
        if is_distributed(optimizer) or is_distributed(_inner(optimizer)):
            if is_keras_3(keras):
                bound.arguments["optimizer"] = _scaled(keras, self, bound.arguments)
            if "jit_compile" in signature.parameters:
                _refuse_xla(bound.arguments)
        return original(*bound.args, **bound.kwargs)

    setattr(compile, _WATCHED, True)
    return compile


def _drop_old_word(signature: inspect.Signature, kwargs: dict[str, Any]) -> None:
    """Takes out an argument that every Horovod script of the time of TensorFlow 2.0 passes."""
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if _OLD_WORD in kwargs and inspect.Parameter.VAR_KEYWORD not in kinds:
        del kwargs[_OLD_WORD]
        warnings.warn(
            f"{_OLD_WORD} is ignored, because this Keras does not know it any more; leave it out "
            "of model.compile()",
            stacklevel=3,
        )


def is_distributed(optimizer: Any) -> bool:
    """Whether an optimizer is one of ours."""
    return hasattr(type(optimizer), "_hvd_plain")


def _inner(optimizer: Any) -> Any:
    return getattr(optimizer, "inner_optimizer", None)


def _refuse_xla(arguments: dict[str, Any]) -> None:
    """Compiles without XLA, and says so if it was asked for."""
    optimizer = arguments["optimizer"]
    ours = optimizer if is_distributed(optimizer) else _inner(optimizer)
    if not ours._hvd_bridge.__name__.endswith("tensorflow_bridge"):
        return
    if arguments.get("jit_compile", "auto") not in ("auto", False, None):
        warnings.warn(
            "jit_compile=True is not possible with hvd.DistributedOptimizer, because XLA does not "
            "know collectives; the model is compiled with jit_compile=False",
            stacklevel=3,
        )
    arguments["jit_compile"] = False


def _scaled(keras: Any, model: Any, arguments: dict[str, Any]) -> Any:
    """The optimizer with its loss scale, if it has or gets one, inside of the distributed one."""
    optimizer = arguments["optimizer"]
    scale = keras.optimizers.LossScaleOptimizer
    automatic = arguments.get("auto_scale_loss", True)
    mixed = automatic and model.dtype_policy.name == "mixed_float16"
    if isinstance(optimizer, scale):
        outer = optimizer
    elif mixed:
        outer = scale(optimizer, name="loss_scale_optimizer")
    else:
        return optimizer
    if is_distributed(outer):
        return outer
    from horovod._keras.optimizer import distributed_class, undistributed

    inner = outer.inner_optimizer
    settings = inner._hvd_settings
    undistributed(inner)
    outer.__class__ = distributed_class(keras, type(outer), settings)
    outer._hvd_steps = inner._hvd_steps
    return outer
