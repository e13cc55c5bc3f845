"""The names under which ranks meet.

In a graph that is the name of the node, which TensorFlow makes unique; outside of graphs nodes have
no names, so there it is an attribute, and without a name the name of the op: calls come one after
the other.
"""

from __future__ import annotations

import re
from typing import Any

import tensorflow as tf


def normalized(name: str) -> str:
    """A name with only the characters that TensorFlow allows in names of nodes."""
    return re.sub("[^a-zA-Z0-9_]", "_", name)


def label(tensor: Any) -> str:
    """What a tensor or a variable is called; Keras 3 calls the unique name of a variable path."""
    try:
        return str(getattr(tensor, "path", None) or tensor.name)
    except AttributeError:
        return "tensor"


def arguments(op_name: str, name: str | None, *tensors: Any) -> dict[str, str | None]:
    """The arguments of an op that decide about its name; tensors are the first and the last."""
    if tf.executing_eagerly():
        return {"name": name, "tensor_name": name or ""}
    if name is None:
        name = "_".join([op_name, *(normalized(label(tensor)) for tensor in tensors)])
    return {"name": name}


def ends(tensors: list[Any]) -> list[Any]:
    """The first and the last tensor of a group, by which it is named."""
    return tensors[:1] if len(tensors) == 1 else [tensors[0], tensors[-1]]
