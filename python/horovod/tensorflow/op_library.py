"""The ops of the extension module as Python functions.

They are registered with the TensorFlow that is loaded, and their wrappers are made from the op
registry, as TensorFlow makes its own. TensorFlow must not put them in an order inside of a
`tf.function`: a collective waits for other ranks, and hundreds of them may wait at once.
"""

from __future__ import annotations

from types import ModuleType

import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.autograph.core import config as autograph
from tensorflow.python.framework import _pywrap_python_op_gen as op_generator
from tensorflow.python.framework import auto_control_deps, op_def_registry

from horovod.common.framework_ops import register_tensorflow

OLDEST = (2, 13)
TESTED = "2.13 to 2.21"


def _require_version() -> None:
    version = tuple(int(number) for number in tf.__version__.split(".")[:2])
    if version < OLDEST:
        raise ImportError(
            f"horovod.tensorflow needs TensorFlow {OLDEST[0]}.{OLDEST[1]} or newer, which has "
            f"asynchronous kernels; this is {tf.__version__} (tested: {TESTED})"
        )


def _register() -> list[str]:
    try:
        return register_tensorflow()
    except ImportError as error:
        raise ImportError(
            f"horovod.tensorflow cannot use TensorFlow {tf.__version__}: {error} (tested: {TESTED})"
        ) from error


def _wrappers(names: list[str]) -> ModuleType:
    definitions = op_def_pb2.OpList(op=[op_def_registry.get(name) for name in names])
    source = op_generator.GetPythonWrappers(definitions.SerializeToString())
    module = ModuleType("horovod.tensorflow.generated_ops")
    exec(compile(source, module.__name__, "exec"), module.__dict__)
    return module


def _allow_any_order(names: list[str]) -> None:
    """Lets each of them run, in any order."""
    known = auto_control_deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS
    auto_control_deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS = known.union(names)


def _leave_out_of_autograph() -> None:
    """What is written here is written for graphs already; translating it would take its time."""
    rule = autograph.DoNotConvert("horovod")
    autograph.CONVERSION_RULES = (rule, *autograph.CONVERSION_RULES)


_require_version()
_names = _register()
_allow_any_order(_names)
_leave_out_of_autograph()
ops = _wrappers(_names)
