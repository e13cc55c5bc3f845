"""What the modules here need to know about variables, of TensorFlow and of Keras, and the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from horovod.common.elastic import is_elastic
from horovod.common.process_sets import ProcessSet
from horovod.tensorflow import mpi_ops
from horovod.tensorflow.compatibility import _cache as _cache
from horovod.tensorflow.compatibility import _executing_eagerly as _executing_eagerly
from horovod.tensorflow.compatibility import _make_subgraph as _make_subgraph


def reference(variable: Any) -> Any:
    """Something hashable that is equal for the same variable, also behind one of Keras 3."""
    inner = variable._value if hasattr(variable, "path") else variable
    return inner.ref() if hasattr(inner, "ref") else id(inner)


def vars_to_refs(variables: Any) -> Any:
    """References to a variable or nested lists of them, which can be compared and hashed."""
    if isinstance(variables, (list, tuple)):
        return tuple(vars_to_refs(each) for each in variables)
    return variables.ref()


def refs_to_vars(references: Any) -> Any:
    """The variables behind references, in the same structure, of lists."""
    if isinstance(references, tuple):
        return [refs_to_vars(each) for each in references]
    return references.deref()


_SIGNS_OF_FAILURE = (
    "Horovod",
    "horovod has been shut down",
    "collective operations cannot go on without it",
)
"""The name of an op, or, since a function's error has the name of the node instead, the texts for a
rank that is gone."""


def is_failure(error: Exception) -> bool:
    """Whether this is TensorFlow's error for an op of horovod that failed under way."""
    text = str(error)
    return isinstance(error, tf.errors.UnknownError) and any(
        sign in text for sign in _SIGNS_OF_FAILURE
    )


def if_shared(
    process_set: ProcessSet, together: Callable[[], Any], alone: Callable[[], Any]
) -> Any:
    """What to do in a set of several ranks with this one among them, or else alone.

    An elastic job decides when it runs, any other when the graph is made.
    """
    number = mpi_ops.set_id(process_set)
    if not is_elastic():
        shared = bool(process_set.included()) and (process_set.size() or 1) > 1
        return together() if shared else alone()
    included = tf.equal(mpi_ops.process_set_included_op(number), 1)
    shared = tf.logical_and(included, mpi_ops.size_op(number) > 1)
    return tf.cond(shared, together, alone)


def set_size_number(process_set: ProcessSet, dtype: Any) -> Any:
    """Number of ranks of a set, in a type to compute with."""
    number = mpi_ops.set_id(process_set)
    if is_elastic():
        return tf.cast(mpi_ops.size_op(number), dtype)
    return tf.cast(process_set.size() or 1, dtype)
